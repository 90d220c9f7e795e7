package rvt

import (
	"net/netip"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// mcastTable holds the QPs of each multicast group.
type mcastTable struct {
	change sync.Mutex       // serialises joins and leaves, also those of ports
	mu     sync.RWMutex     // never held while a port is called, which may be delivering
	groups map[ci.GID][]*QP // a QP once for each attachment; slices are replaced, never changed
	n      int              // attachments
}

// members returns the QPs of a group. The caller may not change the slice.
func (t *mcastTable) members(gid ci.GID) []*QP {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.groups[gid]
}

// Mcast is the membership of a QP in a group.
type Mcast struct {
	refs driver.Refs
	qp   *QP
	gid  ci.GID
}

// AttachMcast attaches a datagram QP to a group.
func (q *QP) AttachMcast(c ci.McastAttach) (ci.Mcast, error) {
	const verb = "QP.AttachMcast"
	gid, mlid := c.GID, c.LID
	a := &q.dev.attr
	switch {
	case !a.Caps.Has(ci.CapMulticast):
		return q.UnimplementedQP.AttachMcast(c)
	case q.typ != ci.UD:
		return nil, fail(verb, ci.InvalidServiceType)
	}
	q.mu.Lock()
	port := q.dev.port(q.attr.Port)
	q.unlock()
	ethernet := port.attr.Load().Link == ci.LinkEthernet
	// IPv4 groups are mapped (annex A17, 17.9.1).
	if group := netip.AddrFrom16(gid); !group.IsMulticast() || group.Is4In6() && !ethernet {
		return nil, fail(verb, ci.InvalidGID)
	}
	if !ethernet && (mlid < 0xc000 || mlid == 0xffff) {
		return nil, fail(verb, ci.InvalidLID)
	}
	if !q.refs.Get() {
		return nil, fail(verb, ci.InvalidQPHandle)
	}
	if err := q.dev.join(verb, q, gid); err != nil {
		q.refs.Put()
		return nil, err
	}
	q.dev.limit[kindMcast].Add(1)
	nothingForUser(c.User)
	return &Mcast{qp: q, gid: gid}, nil
}

// Destroy detaches the QP from the group.
func (m *Mcast) Destroy() error {
	if err := m.refs.BeginDestroy("Mcast.Destroy", ci.InvalidMcastHandle); err != nil {
		return err
	}
	m.qp.dev.leave(m.qp, m.gid)
	m.qp.dev.drop(kindMcast)
	m.qp.refs.Put()
	return nil
}

func (d *device) join(verb string, q *QP, gid ci.GID) error {
	t := &d.groups
	t.change.Lock()
	defer t.change.Unlock()
	list := t.groups[gid]
	switch {
	case t.n >= d.attr.MaxMcastQPs || len(list) >= d.attr.MaxQPsPerMcastGroup:
		return fail(verb, ci.MaxMcastQPsReached)
	case list == nil && len(t.groups) >= d.attr.MaxMcastGroups:
		return fail(verb, ci.InsufficientResources)
	}
	if list == nil {
		for i, p := range d.ports {
			if p.group == nil {
				continue
			}
			if err := p.group.JoinGroup(gid); err != nil {
				d.leavePorts(gid, i)
				return failErr(verb, joinStatus(err), err)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups == nil {
		t.groups = make(map[ci.GID][]*QP)
	}
	t.groups[gid] = append(slices.Clip(list), q)
	t.n++
	return nil
}

// joinStatus returns the status for a join that a port rejected: the status in the error, such as InvalidGID for a
// group of another address family, or InsufficientResources for any other error.
func joinStatus(err error) ci.Status {
	if s := ci.StatusOf(err); s != ci.UnknownError {
		return s
	}
	return ci.InsufficientResources
}

// leavePorts makes the first n ports leave a group. The error of a port is ignored, because the consumer can do nothing
// about it.
func (d *device) leavePorts(gid ci.GID, n int) {
	for _, p := range d.ports[:n] {
		if p.group != nil {
			_ = p.group.LeaveGroup(gid)
		}
	}
}

func (d *device) leave(q *QP, gid ci.GID) {
	t := &d.groups
	t.change.Lock()
	defer t.change.Unlock()
	list := slices.Clone(t.groups[gid])
	if i := slices.Index(list, q); i >= 0 {
		list = slices.Delete(list, i, i+1)
		t.n--
	}
	t.mu.Lock()
	if len(list) > 0 {
		t.groups[gid] = list
	} else {
		delete(t.groups, gid)
	}
	t.mu.Unlock()
	if len(list) == 0 {
		d.leavePorts(gid, len(d.ports))
	}
}
