package sa

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// Join makes the port a member of a multicast group, and the group, if there is none and mask has what it takes (15.2.5.17.2). It gives
// the group's parameters. Errors: as Do.
func (c *Client) Join(ctx context.Context, port mads.Port, rec mad.MCMemberRecord, mask mad.ComponentMask) (*mad.MCMemberRecord, error) {
	return c.member(ctx, port, mad.Set, rec, mask)
}

// Leave ends the membership of join states. Errors: as Do.
func (c *Client) Leave(ctx context.Context, port mads.Port, rec mad.MCMemberRecord) error {
	_, err := c.member(ctx, port, mad.Delete, rec, mad.MCMGID|mad.MCPortGID|mad.MCJoinState)
	return err
}

func (c *Client) member(ctx context.Context, port mads.Port, m mad.Method, rec mad.MCMemberRecord, mask mad.ComponentMask) (*mad.MCMemberRecord, error) {
	req := &mad.SA{Header: mad.Header{Method: m, Attribute: mad.AttrMCMemberRecord}, ComponentMask: mask}
	rec.Put(req.Data[:])
	resp, err := c.Do(ctx, port, req)
	if err != nil {
		return nil, err
	}
	rec.Parse(resp.Data[:])
	return &rec, nil
}
