package sa

import (
	"context"
	"sync/atomic"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// MembershipConfig describes a membership in a multicast group.
type MembershipConfig struct {
	// Record and Mask are those of Client.Join. A PortGID of zero is the port's GID with index 0, and a JoinState of
	// zero is mad.FullMember; Mask need not have their components.
	Record mad.MCMemberRecord
	Mask   mad.ComponentMask
	// OnChange, if not nil, is called when the port has joined again, with the group's parameters, or when that has
	// failed for the first time, with the error. Further attempts follow. After it has joined again, the group may have
	// another LID: then address vectors and attached QPs need it. Calls are made one at a time, with no lock held.
	OnChange func(group *mad.MCMemberRecord, err error)
}

// A Membership is a port's membership in a multicast group. It is kept until Destroy: the port joins again after a
// client reregister, when the subnet manager, the LID or the GIDs of the port have changed, and when the port is active
// again. Memberships of a port with equal groups, GIDs and join states share that of the administrator: one request
// serves for those with equal records, and the last one leaves.
type Membership struct {
	*registration
	group atomic.Pointer[mad.MCMemberRecord]
}

// memberKey identifies a membership for the administrator.
type memberKey struct {
	mgid, gid [16]byte
	join      mad.JoinState
}

// NewMembership joins a group, and keeps the membership. Errors: as Client.Do.
func (c *Client) NewMembership(ctx context.Context, port mads.Port, cfg MembershipConfig) (*Membership, error) {
	return wait(func(done func(*Membership, error)) error { return c.StartMembership(ctx, port, cfg, done) })
}

// StartMembership starts NewMembership and returns. done is called with the outcome.
func (c *Client) StartMembership(ctx context.Context, port mads.Port, cfg MembershipConfig,
	done func(*Membership, error)) error {
	if done == nil {
		return errNoDone
	}
	if cfg.Record.JoinState == 0 {
		cfg.Record.JoinState = mad.FullMember
	}
	cfg.Mask |= mad.MCMGID | mad.MCPortGID | mad.MCJoinState
	m := &Membership{}
	current := func() (mad.MCMemberRecord, error) {
		rec := cfg.Record
		var err error
		if rec.PortGID == ([16]byte{}) {
			rec.PortGID, err = c.portGID(port)
		}
		return rec, err
	}
	m.registration = &registration{c: c, port: port,
		key:      memberKey{cfg.Record.MGID, cfg.Record.PortGID, cfg.Record.JoinState},
		isShared: true,
		register: func() (*mad.SA, error) {
			rec, err := current()
			return memberRequest(mad.Set, &rec, cfg.Mask), err
		},
		accept: func(resp *mad.SA) time.Duration {
			var group mad.MCMemberRecord
			group.Parse(resp.Data[:])
			m.group.Store(&group)
			return 0
		},
		unregister: func() *mad.SA {
			rec, _ := current()
			if g := m.group.Load(); g != nil {
				rec.PortGID, rec.MGID = g.PortGID, g.MGID
			}
			return memberRequest(mad.Delete, &rec, memberMask)
		}}
	if cfg.OnChange != nil {
		m.onChange = func(err error) {
			if err != nil {
				cfg.OnChange(nil, err)
				return
			}
			cfg.OnChange(m.Group(), nil)
		}
	}
	return m.begin(ctx, func(err error) { finish(done, m, err) })
}

// finish calls done with an object, or with nil and an error.
func finish[T any](done func(*T, error), object *T, err error) {
	if err != nil {
		object = nil
	}
	done(object, err)
}

// Group returns the parameters of the group, as of the last join.
func (m *Membership) Group() *mad.MCMemberRecord {
	g := *m.group.Load()
	return &g
}

// portGID returns the GID of a port with index 0.
func (c *Client) portGID(port mads.Port) (gid [16]byte, err error) {
	a, err := c.al.Adapter(port.CA)
	if err != nil {
		return gid, failure(ci.InvalidPort, "the port does not exist", err)
	}
	p, err := a.Port(port.Num)
	if err != nil {
		return gid, err
	}
	if len(p.GIDs) == 0 {
		return gid, failure(ci.InvalidPortState, "the port has no GID", nil)
	}
	return p.GIDs[0].GID, nil
}
