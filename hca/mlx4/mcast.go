package mlx4

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/prm"
)

// groups are the multicast groups: a hash table of the adapter, whose chains the driver maintains.
type groups struct {
	mu      sync.Mutex
	members map[member]int // attachments
	sizes   map[ci.GID]int // members, each once
}

type member struct {
	gid ci.GID
	qpn uint32
}

// mcast is the membership of a QP in a group.
type mcast struct {
	ci.UnimplementedMcast
	refs driver.Refs
	qp   *qp
	gid  ci.GID
}

// maxGroupQPs returns the most members of a group.
func (h *HCA) maxGroupQPs() int {
	return min((1<<h.caps.LogMCGEntry-prm.MCGQPs)/4, int(h.caps.MaxMcastQPs))
}

// AttachMcast attaches a datagram QP to a group. Status: InvalidServiceType, InvalidGID, InvalidLID,
// MaxMcastQPsReached, InsufficientResources, Unsupported, InvalidQPHandle.
func (q *qp) AttachMcast(c ci.McastAttach) (_ ci.Mcast, err error) {
	const verb = "QP.AttachMcast"
	h := q.hca
	q.modify.Lock()
	p := q.port()
	q.modify.Unlock()
	isGroup := c.GID[0] == 0xff || p.isEthernet() && isMapped(&c.GID) && c.GID[12]>>4 == 0xe
	switch {
	case !h.claims.Has(ci.CapMulticast):
		return q.UnimplementedQP.AttachMcast(c)
	case q.create.Type != ci.UD:
		return nil, fail(verb, ci.InvalidServiceType, "only datagram QPs join groups")
	case !isGroup:
		return nil, fail(verb, ci.InvalidGID, "not the GID of a group")
	case p.isEthernet() && !p.hasFamily(isMapped(&c.GID)):
		return nil, fail(verb, ci.InvalidGID, "the port has no address of the group's family")
	case !p.isEthernet() && (c.LID < 0xc000 || c.LID == 0xffff):
		return nil, fail(verb, ci.InvalidLID, "not the LID of a group")
	}
	var u undo
	defer u.run(&err)
	if !q.refs.Get() {
		return nil, fail(verb, ci.InvalidQPHandle, "")
	}
	u.add(q.refs.Put)
	if h.mcasts.Take(verb) != nil {
		return nil, fail(verb, ci.MaxMcastQPsReached, "MaxMcastQPs")
	}
	u.add(h.mcasts.Give)
	if err := h.join(verb, member{c.GID, q.hw}); err != nil {
		return nil, err
	}
	nothing(c.User)
	return &mcast{qp: q, gid: c.GID}, nil
}

// Destroy detaches the QP. Status: InvalidMcastHandle.
func (m *mcast) Destroy() error {
	const verb = "Mcast.Destroy"
	if err := m.refs.BeginDestroy(verb, ci.InvalidMcastHandle); err != nil {
		return err
	}
	if err := m.qp.hca.leaveGroup(member{m.gid, m.qp.hw}); err != nil {
		m.refs.Revive()
		return firmwareError(verb, err)
	}
	m.qp.hca.mcasts.Give()
	m.qp.refs.Put()
	return nil
}

// join adds a member. A QP that is a member already is one more time.
func (h *HCA) join(verb string, m member) error {
	g := &h.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members == nil {
		g.members, g.sizes = map[member]int{}, map[ci.GID]int{}
	}
	if g.members[m] == 0 {
		switch {
		case g.sizes[m.gid] >= h.maxGroupQPs():
			return fail(verb, ci.MaxMcastQPsReached, "MaxQPsPerMcastGroup")
		case g.sizes[m.gid] == 0 && len(g.sizes) >= int(h.caps.NumMCGs):
			return fail(verb, ci.InsufficientResources, "MaxMcastGroups")
		}
		if err := h.addMember(m); err != nil {
			return firmwareError(verb, err)
		}
		g.sizes[m.gid]++
	}
	g.members[m]++
	return nil
}

func (h *HCA) leaveGroup(m member) error {
	g := &h.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.members[m] > 1 {
		g.members[m]--
		return nil
	}
	if err := h.removeMember(m); err != nil && h.dev.Err() == nil {
		return err
	}
	delete(g.members, m)
	if g.sizes[m.gid]--; g.sizes[m.gid] == 0 {
		delete(g.sizes, m.gid)
	}
	return nil
}

// entry is an entry of the table.
type entry struct {
	index uint32
	b     []byte
}

func (e *entry) size() int { return int(prm.MCGMembers.Get(e.b)) }

func (e *entry) next() uint32 { return uint32(prm.MCGNext.Get(e.b)) }

// findGroup searches the chain of a group. found is the entry of the group, or nil. last is the entry before it, or the
// last of the chain, or nil if the chain is empty.
func (h *HCA) findGroup(gid ci.GID) (hash uint32, found, last *entry, err error) {
	if hash, err = h.dev.HashMGID(h.ctx, gid, false); err != nil {
		return 0, nil, nil, err
	}
	index := hash
	for range h.caps.NumMCGs*2 + 1 { // a longer chain is a loop
		b, err := h.dev.ReadMCG(h.ctx, index)
		if err != nil {
			return 0, nil, nil, err
		}
		e := &entry{index, b}
		if last == nil && e.size() == 0 {
			return hash, nil, nil, nil
		}
		if ci.GID(prm.MCGGID.Bytes(b, prm.GIDSize)) == gid {
			return hash, e, last, nil
		}
		last = e
		if index = e.next(); index == 0 {
			return hash, nil, last, nil
		}
	}
	return 0, nil, nil, errChain
}

// addMember adds a QP to the entry of a group, which it makes if there is none. mu is held.
func (h *HCA) addMember(m member) error {
	hash, e, last, err := h.findGroup(m.gid)
	if err != nil {
		return err
	}
	if e != nil {
		return h.dev.WriteMCG(h.ctx, e.index, withMember(e.b, m.qpn))
	}
	b := make([]byte, 1<<h.caps.LogMCGEntry)
	copy(prm.MCGGID.Bytes(b, prm.GIDSize), m.gid[:])
	prm.MCGProtocol.Put(b, prm.ProtocolIB)
	b = withMember(b, m.qpn)
	if last == nil {
		return h.dev.WriteMCG(h.ctx, hash, b)
	}
	index, err := h.dev.AllocMCG()
	if err != nil {
		return err
	}
	if err = h.dev.WriteMCG(h.ctx, index, b); err == nil {
		prm.MCGNext.Put(last.b, uint64(index))
		err = h.dev.WriteMCG(h.ctx, last.index, last.b)
	}
	if err != nil {
		h.dev.FreeMCG(index)
	}
	return err
}

// withMember returns an entry with one more member.
func withMember(b []byte, qpn uint32) []byte {
	n := int(prm.MCGMembers.Get(b))
	prm.MemberQPN.Put(b[prm.MCGQPs+4*n:], uint64(qpn))
	prm.MCGMembers.Put(b, uint64(n+1))
	return b
}

// removeMember removes a QP from the entry of a group, and the entry with the last member. mu is held.
func (h *HCA) removeMember(m member) error {
	_, e, last, err := h.findGroup(m.gid)
	if err != nil || e == nil {
		return err
	}
	n := e.size()
	for i := range n {
		at := e.b[prm.MCGQPs+4*i:]
		if uint32(prm.MemberQPN.Get(at)) == m.qpn {
			copy(at[:4], e.b[prm.MCGQPs+4*(n-1):])
			clear(e.b[prm.MCGQPs+4*(n-1):][:4])
			n--
			prm.MCGMembers.Put(e.b, uint64(n))
			break
		}
	}
	switch {
	case n > 0:
		return h.dev.WriteMCG(h.ctx, e.index, e.b)
	case last != nil: // in the chain
		prm.MCGNext.Put(last.b, uint64(e.next()))
		if err := h.dev.WriteMCG(h.ctx, last.index, last.b); err != nil {
			return err
		}
		return h.freeGroup(e.index)
	case e.next() != 0: // at the beginning of the chain: the next one moves here
		next := e.next()
		b, err := h.dev.ReadMCG(h.ctx, next)
		if err != nil {
			return err
		}
		if err := h.dev.WriteMCG(h.ctx, e.index, b); err != nil {
			return err
		}
		return h.freeGroup(next)
	}
	return h.dev.WriteMCG(h.ctx, e.index, make([]byte, len(e.b)))
}

// freeGroup clears and releases an entry of AllocMCG.
func (h *HCA) freeGroup(index uint32) error {
	err := h.dev.WriteMCG(h.ctx, index, make([]byte, 1<<h.caps.LogMCGEntry))
	h.dev.FreeMCG(index)
	return err
}
