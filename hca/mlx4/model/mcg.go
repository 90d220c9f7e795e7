package model

import (
	"bytes"
	"hash/fnv"
	"slices"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// mcg is an entry of the multicast table. The driver maintains hash chains; to the model each entry is a group by
// itself.
type mcg struct {
	raw      []byte
	protocol uint8
	gid      ci.GID
	joined   map[uint32]ci.Mcast // by QPN: the members that are attached, which are QPs of the transport outside Reset
}

// mcgIndex validates the index of an entry.
func (c *command) mcgIndex() (uint32, bool) { return c.mod, c.mod < 1<<c.layout.logMCs }

func (c *command) readMCG() prm.Status {
	index, ok := c.mcgIndex()
	if !ok {
		return prm.BadIndex
	}
	if e := c.mcgs[index]; e != nil {
		return c.outbox(e.raw)
	}
	return c.outbox(make([]byte, 1<<c.layout.logMCEntry))
}

// Opcode modifiers of WRITE_MCG.
const (
	writeMCGEntry       = 0
	writeMCGPromiscuous = 1
)

func (c *command) writeMCG() prm.Status {
	b, ok := c.inbox(1 << c.layout.logMCEntry)
	if !ok {
		return prm.BadParam
	}
	switch c.opMod {
	case writeMCGEntry:
		index, ok := c.mcgIndex()
		if !ok {
			return prm.BadIndex
		}
		return c.setMCG(index, b)
	case writeMCGPromiscuous:
		return c.setPromiscuous(uint8(c.mod>>16), uint8(c.mod>>1&1), b)
	}
	return prm.BadOp
}

// maxMembers is the most members of an entry, whatever its size.
const maxMembers = (1<<maxMCEntry - prm.MCGQPs) / 4

// memberQPNs returns the QPs of an entry. It reports false if it has more than its size allows.
func memberQPNs(b []byte) ([]uint32, bool) {
	n := int(prm.MCGMembers.Get(b))
	if n > (len(b)-prm.MCGQPs)/4 {
		return nil, false
	}
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(prm.MemberQPN.Get(b[prm.MCGQPs+4*i:]))
	}
	return list, true
}

// setMCG replaces an entry.
func (m *Model) setMCG(index uint32, b []byte) prm.Status {
	list, ok := memberQPNs(b)
	if !ok {
		return prm.BadParam
	}
	old := m.mcgs[index]
	e := &mcg{raw: b, protocol: uint8(prm.MCGProtocol.Get(b)), gid: ci.GID(prm.MCGGID.Bytes(b, prm.GIDSize)),
		joined: map[uint32]ci.Mcast{}}
	if old != nil {
		if old.gid == e.gid && old.protocol == e.protocol {
			for _, n := range list {
				if a := old.joined[n]; a != nil {
					e.joined[n] = a
					delete(old.joined, n)
				}
			}
		}
		old.detach()
	}
	if len(list) == 0 && len(bytes.Trim(b, "\x00")) == 0 {
		delete(m.mcgs, index)
	} else {
		m.mcgs[index] = e
	}
	for _, n := range list {
		if q := m.qp(n); q != nil {
			e.attach(q)
		}
	}
	m.steering.Store(m.newSteering())
	return prm.OK
}

// members returns the QPs of an entry that the model has accepted.
func (e *mcg) members() []uint32 {
	list, _ := memberQPNs(e.raw)
	return list
}

// attach attaches a QP of the transport that is a member. Other groups are those of Ethernet frames.
func (e *mcg) attach(q *qp) {
	const anyLID = 0xc000 // the port delivers by GID
	if e.protocol == prm.ProtocolEth || q.typ != ci.UD || e.joined[q.num] != nil {
		return
	}
	if a, err := q.face.AttachMcast(ci.McastAttach{GID: e.gid, LID: anyLID}); err == nil {
		e.joined[q.num] = a
	}
}

// detach ends the membership of all QPs.
func (e *mcg) detach() {
	for _, a := range e.joined {
		_ = a.Destroy() // it is this entry's alone
	}
	clear(e.joined)
}

// joinGroups attaches a QP that leaves Reset to the groups that it is a member of.
func (m *Model) joinGroups(q *qp) {
	for _, e := range m.mcgs {
		if slices.Contains(e.members(), q.num) {
			e.attach(q)
		}
	}
}

// leaveGroups detaches a QP that enters Reset. It remains a member.
func (m *Model) leaveGroups(q *qp) {
	for _, e := range m.mcgs {
		if a := e.joined[q.num]; a != nil {
			_ = a.Destroy() // it is this entry's alone
			delete(e.joined, q.num)
		}
	}
}

// mgidHash returns the index of the chain of a GID. The function of the real adapter is not known; the driver uses what
// the command returns.
func (c *command) mgidHash() prm.Status {
	b, ok := c.inbox(prm.GIDSize)
	if !ok {
		return prm.BadParam
	}
	h := fnv.New32a()
	_, _ = h.Write(b) // never fails
	c.result = uint64(h.Sum32() & (1<<c.layout.logMCHash - 1))
	return prm.OK
}
