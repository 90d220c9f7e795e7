package sa

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// PathQuery describes a reversible path between two ports. Fields that are zero match any value.
type PathQuery struct {
	SGID, DGID   ci.GID // required
	PKey         ci.PKey
	Service      mad.ServiceID
	TrafficClass uint8
}

// Path returns the path that the administrator prefers. Errors: as Do.
func (c *Client) Path(ctx context.Context, port mads.Port, q PathQuery) (*mad.PathRecord, error) {
	return wait(func(done func(*mad.PathRecord, error)) error { return c.StartPath(ctx, port, q, done) })
}

// StartPath sends the request of Path and returns. done is called with the outcome.
func (c *Client) StartPath(ctx context.Context, port mads.Port, q PathQuery,
	done func(*mad.PathRecord, error)) error {
	if done == nil {
		return failure(ci.InvalidParameter, "done is nil", nil)
	}
	return c.StartDo(ctx, port, q.request(), func(resp *mad.SA, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		var rec mad.PathRecord
		rec.Parse(resp.Data[:])
		done(&rec, nil)
	})
}

// request returns the request for the path.
func (q *PathQuery) request() *mad.SA {
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
	return req
}
