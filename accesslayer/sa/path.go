package sa

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// PathQuery asks for a path between two ports that goes both ways. Zero values stand for any.
type PathQuery struct {
	SGID, DGID   ci.GID // needed
	PKey         ci.PKey
	Service      mad.ServiceID
	TrafficClass uint8
}

// Path gives the administrator's first choice. Errors: as Do.
func (c *Client) Path(ctx context.Context, port mads.Port, q PathQuery) (*mad.PathRecord, error) {
	rec := mad.PathRecord{SGID: q.SGID, DGID: q.DGID, Reversible: true, NumbPath: 1}
	mask := mad.PathSGID | mad.PathDGID | mad.PathReversible | mad.PathNumbPath
	if q.PKey != 0 {
		rec.PKey = uint16(q.PKey)
		mask |= mad.PathPKey
	}
	if q.Service != 0 {
		rec.ServiceID = q.Service
		mask |= mad.PathServiceID
	}
	if q.TrafficClass != 0 {
		rec.TrafficClass = q.TrafficClass
		mask |= mad.PathTrafficClass
	}
	req := &mad.SA{Header: mad.Header{Method: mad.Get, Attribute: mad.AttrPathRecord}, ComponentMask: mask}
	rec.Put(req.Data[:])
	resp, err := c.Do(ctx, port, req)
	if err != nil {
		return nil, err
	}
	rec.Parse(resp.Data[:])
	return &rec, nil
}
