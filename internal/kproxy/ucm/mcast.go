package ucm

import (
	"syscall"

	"ciddk/accesslayer/rdmacm/cmid"
	abi "ciddk/internal/ucmabi"
)

func (f *File) joinIPMcast(_ *call, q *abi.JoinIPMcast, r *abi.IDResp) error {
	a, err := abi.ParseIP(&q.Addr)
	if err != nil {
		return err
	}
	return f.join(q.ID, q.UID, a, 0, r)
}

func (f *File) joinMcast(_ *call, q *abi.JoinMcast, r *abi.IDResp) error {
	a, err := abi.ParseAddress(q.Addr[:], int(q.AddrSize))
	if err != nil {
		return err
	}
	return f.join(q.ID, q.UID, a, q.Flags, r)
}

// join joins a group. The library attaches the QP when the event arrives.
func (f *File) join(number uint32, uid uint64, a abi.Address, flags uint16, r *abi.IDResp) error {
	if flags > abi.SendOnly {
		return syscall.EINVAL
	}
	return f.placed(number, func(x *id) error {
		if x.isListener() {
			return syscall.EINVAL
		}
		if err := f.session.Charge("rdma_cm", bytesPerGroup); err != nil {
			return err
		}
		u := f.front
		u.mu.Lock() // so that the event finds the group
		g, err := x.join(f, uid, a, cmid.JoinConfig{NoAttach: true, SendOnly: flags == abi.SendOnly})
		u.mu.Unlock()
		if err != nil {
			f.session.Discharge(bytesPerGroup)
			return err
		}
		r.ID = g.number
		return nil
	})
}

// join is File.join with FrontEnd.mu held.
func (x *id) join(f *File, uid uint64, a abi.Address, cfg cmid.JoinConfig) (*group, error) {
	u := x.front
	if x.file != f || u.ids[x.number] != x {
		return nil, syscall.EINVAL // it was migrated or destroyed
	}
	cm, err := x.cm.StartJoin(a.Addr(), cfg)
	if err != nil {
		return nil, err
	}
	g := &group{number: free(u.groups, &u.nextGroup), id: x, uid: uid, cm: cm}
	u.groups[g.number], u.byGroup[cm] = g, g
	if x.groups == nil {
		x.groups = map[*group]struct{}{}
	}
	x.groups[g] = struct{}{}
	return g, nil
}

func (f *File) leaveMcast(_ *call, q *abi.ByID, r *abi.EventsResp) error {
	u := f.front
	u.mu.Lock()
	g := u.groups[q.ID]
	switch {
	case g == nil:
		u.mu.Unlock()
		return syscall.ENOENT
	case g.id.file != f:
		u.mu.Unlock()
		return syscall.EINVAL
	}
	delete(u.groups, g.number)
	delete(u.byGroup, g.cm)
	delete(g.id.groups, g)
	u.mu.Unlock()
	_ = g.cm.StartLeave() // the group is left in any case
	f.session.Discharge(bytesPerGroup)
	u.mu.Lock()
	defer u.mu.Unlock()
	r.EventsReported = g.reported
	return nil
}
