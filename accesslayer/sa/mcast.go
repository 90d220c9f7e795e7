package sa

import (
	"context"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// Join makes the port a member of a multicast group, and returns the parameters of the group. It creates the group if
// it does not exist and mask names all components that this requires (15.2.5.17.2). Errors: as Do.
func (c *Client) Join(ctx context.Context, port mads.Port, rec mad.MCMemberRecord,
	mask mad.ComponentMask) (*mad.MCMemberRecord, error) {
	return wait(func(done func(*mad.MCMemberRecord, error)) error { return c.StartJoin(ctx, port, rec, mask, done) })
}

// StartJoin sends the request of Join and returns. done is called with the outcome.
func (c *Client) StartJoin(ctx context.Context, port mads.Port, rec mad.MCMemberRecord, mask mad.ComponentMask,
	done func(*mad.MCMemberRecord, error)) error {
	if done == nil {
		return failure(ci.InvalidParameter, "done is nil", nil)
	}
	return c.StartDo(ctx, port, memberRequest(mad.Set, &rec, mask), func(resp *mad.SA, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		var group mad.MCMemberRecord
		group.Parse(resp.Data[:])
		done(&group, nil)
	})
}

// Leave ends the membership of the port with the join states of rec. Errors: as Do.
func (c *Client) Leave(ctx context.Context, port mads.Port, rec mad.MCMemberRecord) error {
	_, err := wait(func(done func(struct{}, error)) error {
		return c.StartLeave(ctx, port, rec, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// StartLeave sends the request of Leave and returns. done is called with the outcome.
func (c *Client) StartLeave(ctx context.Context, port mads.Port, rec mad.MCMemberRecord, done func(error)) error {
	if done == nil {
		return failure(ci.InvalidParameter, "done is nil", nil)
	}
	return c.StartDo(ctx, port, memberRequest(mad.Delete, &rec, memberMask), func(_ *mad.SA, err error) { done(err) })
}

// memberMask has the components that identify a membership.
const memberMask = mad.MCMGID | mad.MCPortGID | mad.MCJoinState

func memberRequest(m mad.Method, rec *mad.MCMemberRecord, mask mad.ComponentMask) *mad.SA {
	req := &mad.SA{Header: mad.Header{Method: m, Attribute: mad.AttrMCMemberRecord}, ComponentMask: mask}
	rec.Put(req.Data[:])
	return req
}
