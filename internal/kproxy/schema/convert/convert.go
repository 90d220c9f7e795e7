package convert

import (
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/internal/kproxy/schema"
	"ciddk/mad"
)

// ToPort returns the encoded form of a port.
func ToPort(p mads.Port) schema.PortID { return schema.PortID{CA: p.CA, Num: p.Num} }

// Port returns the port.
func Port(p schema.PortID) mads.Port { return mads.Port{CA: p.CA, Num: p.Num} }

// ToAddress returns the encoded form of the address of a datagram.
func ToAddress(a *mads.Address) schema.MADAddress {
	return schema.MADAddress{AV: schema.NewAVAttr(&a.AV), QPN: a.QPN, QKey: a.QKey, PKeyIndex: a.PKeyIndex}
}

// Address returns the address of a datagram.
func Address(a *schema.MADAddress) mads.Address {
	return mads.Address{AV: a.AV.CI(), QPN: a.QPN, QKey: a.QKey, PKeyIndex: a.PKeyIndex}
}

// ToPath returns the encoded form of a path.
func ToPath(p *cm.Path) schema.CMPath {
	return schema.CMPath{Port: ToPort(p.Port), AV: schema.NewAVAttr(&p.AV), PKey: p.PKey, RemoteLID: p.RemoteLID,
		MTU: p.MTU, LifeTime: uint8(p.LifeTime)}
}

// Path returns the path.
func Path(p *schema.CMPath) cm.Path {
	return cm.Path{Port: Port(p.Port), AV: p.AV.CI(), PKey: p.PKey, RemoteLID: p.RemoteLID, MTU: p.MTU,
		LifeTime: mad.TimeExp(p.LifeTime)}
}

// ToQP returns the encoded form of the description of a QP.
func ToQP(q *cm.QP) schema.CMQP {
	return schema.CMQP{Num: q.Num, StartPSN: q.StartPSN, Type: q.Type, SRQ: q.SRQ}
}

// QP returns the description of a QP.
func QP(q *schema.CMQP) cm.QP {
	return cm.QP{Num: q.Num, StartPSN: q.StartPSN, Type: q.Type, SRQ: q.SRQ}
}

// Message returns the content of a CM message without its header, or nil for a nil message.
func Message(m mad.CMMessage) []byte {
	b := make([]byte, mad.CMDataLen)
	m.Put(b)
	return b
}
