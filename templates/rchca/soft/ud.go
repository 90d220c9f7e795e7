package soft

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/templates/rchca"
)

// grhLen is the number of bytes of a receive before the payload of a datagram.
const grhLen = 40

// WriteDatagram implements rchca.Device.
func (d *Device) WriteDatagram(n ci.QPN, slot int, wr *ci.SendWR, to *ci.AVAttr) {
	d.WriteSend(n, slot, wr)
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil {
		q.sq[slot].to, q.sq[slot].To.AV = *to, nil
	}
}

// sendDatagram executes the oldest request of a UD QP. It reports whether the next one can be tried.
func (q *qp) sendDatagram() bool {
	s := &q.sq[q.sqt%len(q.sq)]
	status := ci.WCSuccess
	if s.Op != ci.OpNop {
		status = q.datagram(s)
	}
	q.complete(status, 0)
	if status == ci.WCSuccess {
		return true
	}
	q.state = ci.QPSQError
	q.flushSends()
	return false
}

// datagram sends a datagram. It returns the status of the sender, which does not depend on the receiver.
func (q *qp) datagram(s *sendSlot) ci.WCStatus {
	local, total, ok := q.d.resolve(q.c.PD, s.sgl, 0)
	if len(s.inline) > 0 {
		local, total, ok = []span{direct(s.inline)}, uint64(len(s.inline)), true
	}
	switch port := &q.d.info.Port; {
	case !ok:
		return ci.WCLocalProtErr
	case total > uint64(port.MTU.Bytes()):
		return ci.WCLocalLenErr
	case s.to.Port != 1 || !q.d.isAddress(&s.to):
		return ci.WCLocalOpErr
	}
	key := s.To.QKey
	if key>>31 != 0 { // a controlled Q_Key is that of the QP (IBTA volume 1, 10.2.5)
		key = q.attr.QKey
	}
	q.d.count(&s.to, 1, 8+s.immediate()+total) // sma.go
	if p := q.receiver(s); p != nil && p.attr.QKey == key {
		return q.deliver(p, s, local, total)
	}
	return ci.WCSuccess
}

// isAddress reports whether the port can use an address.
func (d *Device) isAddress(to *ci.AVAttr) bool {
	port := &d.info.Port
	if port.Link == ci.LinkInfiniBand { // sma.go
		isGroup := to.Global && to.GRH.DGID[0] == 0xff
		return to.DLID != 0 && (to.DLID < 0xc000 || isGroup) && (!to.Global || rchca.IsSource(port, &to.GRH))
	}
	return to.Global && rchca.IsSource(port, &to.GRH) &&
		rchca.SameFamily(port.GIDs[to.GRH.SGIDIndex].GID, to.GRH.DGID)
}

// receiver returns the QP that receives a datagram, or nil.
func (q *qp) receiver(s *sendSlot) *qp {
	d := q.d.find(&s.to)
	if d == nil {
		return nil
	}
	p := d.qps[s.To.QPN]
	if p == nil || p.c.Type != ci.UD || p.state < ci.QPRTR || p.state == ci.QPError {
		return nil
	}
	if !q.isPartner(p) { // sma.go
		return nil
	}
	return p
}

// deliver copies a datagram to the oldest receive of p. It is dropped if there is none, or too short a one. It returns
// the status of the sender.
func (q *qp) deliver(p *qp, s *sendSlot, local []span, total uint64) ci.WCStatus {
	if p.recvs() == 0 {
		return ci.WCSuccess
	}
	far, room, ok := p.front()
	if ok && room < grhLen+total {
		return ci.WCSuccess
	}
	result := noTarget
	if ok {
		grh := q.grh(s, total)
		result = q.d.fab.copyAll(far, append([]span{direct(grh)}, local...), grhLen+total)
	}
	switch result {
	case noSource:
		return ci.WCLocalProtErr
	case noTarget:
		p.receive(rchca.CQE{Status: ci.WCLocalProtErr, Op: ci.WCRecv}, false)
		p.fatal(0)
	default:
		p.receive(rchca.CQE{Op: ci.WCRecv, Length: uint32(grhLen + total), Imm: s.Imm,
			Immediate: s.Flags&ci.SendImmediate != 0, Source: q.source(p, &s.to)},
			s.Flags&ci.SendSolicited != 0)
	}
	return ci.WCSuccess
}

// source describes the sender of a datagram to its receiver.
func (q *qp) source(p *qp, to *ci.AVAttr) rchca.Source {
	s := rchca.Source{SrcQP: q.n, GRH: to.Global}
	if from, at := &q.d.info.Port, &p.d.info.Port; from.Link == ci.LinkInfiniBand { // sma.go
		s.SLID, s.SL = from.LID|ci.LID(to.PathBits)&(1<<from.LMC-1), to.SL
		s.PathBits = uint8(to.DLID & (1<<at.LMC - 1))
	}
	return s
}

// grh returns the GRH of a datagram, which is an IPv6 header on RoCEv2 (IBTA volume 1, 8.3, and annex A17).
func (q *qp) grh(s *sendSlot, total uint64) []byte {
	total = (total+3)&^3 + s.immediate()
	length, next := 8+12+8+4+total, byte(17) // UDP, BTH, DETH, ICRC
	g := &s.to.GRH
	if q.d.info.Port.Link == ci.LinkInfiniBand { // sma.go
		length, next = 12+8+4+total, 0x1b // BTH, DETH, ICRC
	}
	if !s.to.Global { // sma.go
		return make([]byte, grhLen)
	}
	sgid := q.d.info.Port.GIDs[g.SGIDIndex].GID
	b := make([]byte, 0, grhLen)
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(g.TrafficClass)<<20|g.FlowLabel&0xfffff)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = append(b, next, g.HopLimit)
	b = append(b, sgid[:]...)
	return append(b, g.DGID[:]...)
}
