package sma

import (
	"ciddk/ci"
	"ciddk/mad"
)

// Bits of mad.TrapCapability.ChangeFlags.
const changedDescription = 1 << 0

// SetCapability changes bits of a port's CapabilityMask. A change sends trap 144, and the hardware gets
// ChangeCapability.
func (n *SoftNode) SetCapability(port uint8, mask, bits ci.PortCap) {
	p := n.port(port)
	if p == nil {
		return
	}
	n.mu.Lock()
	old := p.info.CapabilityMask
	p.info.CapabilityMask = old&^uint32(mask) | uint32(bits&mask)
	now := p.info.CapabilityMask
	n.mu.Unlock()
	if now == old {
		return
	}
	n.hw.Changed(port, ChangeCapability)
	n.trapCapability(port, mad.TrapCapability{CapabilityMask: now})
}

// SetDescription changes the NodeDescription, and sends trap 144.
func (n *SoftNode) SetDescription(s string) {
	n.mu.Lock()
	n.name = [mad.SMPDataLen]byte{}
	copy(n.name[:], s)
	mask := n.ports[0].info.CapabilityMask
	n.mu.Unlock()
	n.trapCapability(n.first, mad.TrapCapability{CapabilityMask: mask, OtherChanges: true,
		ChangeFlags: changedDescription})
}

func (n *SoftNode) trapCapability(port uint8, d mad.TrapCapability) {
	t := &mad.Notice{Generic: true, Type: mad.NoticeInfo, Trap: mad.TrapCapabilityMask}
	d.Put(t.Details[:])
	n.raise(port, t)
}

// SetSystemGUID changes the system image GUID, and sends trap 145 from each port of an adapter or port 0 of a switch.
func (n *SoftNode) SetSystemGUID(g ci.GUID) {
	n.mu.Lock()
	changed := n.sys != g
	n.sys = g
	n.mu.Unlock()
	if !changed {
		return
	}
	t := &mad.Notice{Generic: true, Type: mad.NoticeInfo, Trap: mad.TrapSystemGUIDChanged}
	(&mad.TrapSystemGUID{GUID: uint64(g)}).Put(t.Details[:])
	for i := range n.ports { // ports of an adapter may be in different subnets
		if p := &n.ports[i]; p.kind != KindSwitchPort {
			n.raise(p.num, t)
		}
	}
}

// SetInitType sets PortInfo.InitType of a port: what its node wants of the subnet manager.
func (n *SoftNode) SetInitType(port uint8, t ci.InitType) {
	if p := n.port(port); p != nil {
		n.mu.Lock()
		p.info.InitType = uint8(t) & 15
		n.mu.Unlock()
	}
}

// SetPortGUID sets entry 0 of a port's GUID table, which a Set cannot change.
func (n *SoftNode) SetPortGUID(port uint8, g ci.GUID) {
	if p := n.port(port); p != nil && len(p.guids) > 0 {
		n.mu.Lock()
		p.guids[0] = uint64(g)
		n.mu.Unlock()
	}
}

// Assign sets LID, LMC and the manager's LID of a port, on a link without a subnet manager. It reports no change. The
// port sends no traps until a Set(PortInfo) names a manager.
func (n *SoftNode) Assign(port uint8, lid ci.LID, lmc uint8, manager ci.LID) {
	if p := n.port(port); p != nil {
		n.mu.Lock()
		p.info.LID, p.info.LMC, p.info.MasterSMLID = uint16(lid), lmc, uint16(manager)
		p.unmanaged = true
		p.publish()
		n.mu.Unlock()
	}
}

// SetState puts a port into a logical and a physical state, on a link without a subnet manager, and reports the change.
func (n *SoftNode) SetState(port uint8, s ci.PortState, phys uint8) {
	p := n.port(port)
	if p == nil {
		return
	}
	n.mu.Lock()
	old := ci.PortState(p.info.State)
	p.info.State, p.info.PhysState = uint8(s), phys
	p.publish()
	n.mu.Unlock()
	var c Change
	switch {
	case s == old:
		return
	case s == ci.PortDown:
		c = downChange(old)
	case s == ci.PortInit:
		c = ChangeInit
	case s == ci.PortArmed && old == ci.PortDown:
		c = ChangeInit | ChangeArmed
	case s == ci.PortArmed:
		c = ChangeArmed
	default:
		c = ChangeActive
	}
	n.hw.Changed(port, c)
}

// KeyTrap returns the details of traps 257 and 258 for a packet with a wrong key.
func KeyTrap(v *ci.KeyViolation) mad.TrapKey {
	return mad.TrapKey{LID1: uint16(v.SLID), LID2: uint16(v.DLID), Key: v.Key, SL: uint8(v.SL), QP1: uint32(v.SrcQP),
		QP2: uint32(v.DestQP), GID1: v.SGID, GID2: v.DGID}
}

// CountKeyViolation counts a packet with a wrong P_Key or, with qkey true, a wrong Q_Key that arrived at the port, and
// sends trap 257 or 258, or 259 from an external port of a switch. The details are t, or those fields of it that the
// switch's trap has.
func (n *SoftNode) CountKeyViolation(port uint8, t *mad.TrapKey, qkey bool) {
	p := n.port(port)
	if p == nil {
		return
	}
	count, notice := &p.info.PKeyViolations, mad.Notice{Generic: true, Type: mad.NoticeSecurity, Trap: mad.TrapBadPKey}
	if qkey {
		count, notice.Trap = &p.info.QKeyViolations, mad.TrapBadQKey
	}
	n.mu.Lock()
	if *count != 0xffff {
		*count++
	}
	n.mu.Unlock()
	if p.kind == KindSwitchPort && !qkey {
		notice.Trap = mad.TrapSwitchBadPKey
		s := mad.TrapSwitchPKey{Valid: mad.TrapValidLID1 | mad.TrapValidLID2 | mad.TrapValidPKey | mad.TrapValidSL |
			mad.TrapValidQP1 | mad.TrapValidQP2 | mad.TrapValidSwLID | mad.TrapValidPort, LID1: t.LID1, LID2: t.LID2,
			PKey: uint16(t.Key), SL: t.SL, QP1: t.QP1, QP2: t.QP2, GID1: t.GID1, GID2: t.GID2, Port: port}
		s.Put(notice.Details[:])
	} else {
		t.Put(notice.Details[:])
	}
	n.raise(port, &notice)
}

// LinkError sends one of the traps about the quality of a link: mad.TrapLinkIntegrity, mad.TrapBufferOverrun or
// mad.TrapFlowControl.
func (n *SoftNode) LinkError(port uint8, trap uint16) {
	t := &mad.Notice{Generic: true, Type: mad.NoticeUrgent, Trap: trap}
	(&mad.TrapPort{Port: port}).Put(t.Details[:])
	n.raise(port, t)
}
