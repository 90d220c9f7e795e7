package fabric

import (
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// KeyViolation counts a packet with a wrong key, and sends a trap. It implements rvt.ViolationPort.
func (c *CAPort) KeyViolation(v ci.KeyViolation, qkey bool) {
	t := sma.KeyTrap(&v)
	c.CountViolation(&t, qkey)
}

// CountViolation counts a packet with a wrong P_Key or, with qkey true, a wrong Q_Key, and sends a trap with the
// details.
func (c *CAPort) CountViolation(t *mad.TrapKey, qkey bool) {
	c.port.node.soft.CountKeyViolation(c.port.num, t, qkey)
}

// violation counts a parcel that the enforcement of partitions at a switch port has dropped, and sends trap 259.
func (p *Port) violation(x *parcel) {
	p.node.soft.CountKeyViolation(p.num, &mad.TrapKey{LID1: uint16(x.slid), LID2: uint16(x.dlid),
		Key: uint32(x.pkey), SL: uint8(x.sl), QP1: uint32(x.srcQP), QP2: uint32(x.destQP)}, false)
}
