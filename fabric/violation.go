package fabric

import (
	"ciddk/mad"
	"ciddk/rvt"
)

// KeyTrap returns the details of traps 257 and 258 for a packet with a wrong P_Key or, with qkey true, a wrong Q_Key.
func KeyTrap(p *rvt.Packet, qkey bool) mad.TrapKey {
	t := mad.TrapKey{LID1: uint16(p.Src.LID), LID2: uint16(p.Dst.LID), Key: uint32(p.PKey), SL: uint8(p.SL),
		QP1: uint32(p.SrcQP), QP2: uint32(p.DestQP)}
	if qkey {
		t.Key = uint32(p.QKey)
	}
	if len(p.GRH) >= 40 {
		t.GID1, t.GID2 = [16]byte(p.GRH[8:24]), [16]byte(p.GRH[24:40])
	}
	return t
}

// KeyViolation counts a packet with a wrong key, and sends a trap. It implements rvt.ViolationPort.
func (c *CAPort) KeyViolation(p *rvt.Packet, qkey bool) {
	t := KeyTrap(p, qkey)
	c.CountViolation(&t, qkey)
}

// CountViolation counts a packet with a wrong P_Key or, with qkey true, a wrong Q_Key, and sends a trap with the
// details.
func (c *CAPort) CountViolation(t *mad.TrapKey, qkey bool) {
	if qkey {
		c.port.node.soft.CountQKeyViolation(c.port.num, t)
		return
	}
	c.port.node.soft.CountPKeyViolation(c.port.num, t)
}

// violation counts a parcel that the enforcement of partitions at a switch port has dropped, and sends trap 259.
func (p *Port) violation(x *parcel) {
	p.node.soft.CountPKeyViolation(p.num, &mad.TrapKey{LID1: uint16(x.slid), LID2: uint16(x.dlid),
		Key: uint32(x.pkey), SL: uint8(x.sl), QP1: uint32(x.srcQP), QP2: uint32(x.destQP)})
}
