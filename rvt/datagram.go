package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

const (
	grhSize = 40
	qp1QKey = 0x80010000 // IBTA volume 1, 3.5.3
)

// transmitDatagrams sends what is posted on a datagram QP.
func (q *QP) transmitDatagrams(r *run) {
	s := &q.req
	for q.current() == ci.QPRTS {
		if s.head == s.tail && !q.decode() {
			break
		}
		if r.left.isSpent() {
			r.more = true
			break
		}
		r.left.spend(1, uint32(min(s.at(s.head).w.Length, uint64(q.mtu))))
		e := s.at(s.head)
		if st := q.sendDatagram(r, e); st != ci.WCSuccess {
			q.sendError(r, st)
			return
		}
		e.started, e.done = true, true
		q.retire(r)
	}
	q.checkDrained()
}

func (q *QP) sendDatagram(r *run, e *sendEntry) ci.WCStatus {
	w := &e.w
	switch {
	case w.Bad != ci.WCSuccess:
		return w.Bad
	case w.Op == ci.OpNop:
		return ci.WCSuccess
	case w.Op != ci.OpSend || w.AV == nil || w.AV.pd != q.pd: // a ring may name any vector (IBTA volume 1, 10.2.2.2)
		return ci.WCLocalOpErr
	}
	av := w.AV.state.Load()
	if av.route == nil || av.port != q.port {
		return ci.WCLocalOpErr
	}
	if w.Length > uint64(q.mtu) {
		return ci.WCLocalLenErr
	}
	key := q.pkey
	if q.typ == ci.QP1 {
		var ok bool
		if key, ok = q.port.pkey(w.PKeyIx); !ok {
			return ci.WCLocalOpErr
		}
	}
	p, _ := q.fill(r, e, 0, 1)
	if p == nil {
		return ci.WCLocalProtErr
	}
	p.Op, p.Start, p.End = wire.OpSend, true, true
	p.Route, p.PKey = av.route, key
	p.DestQP, p.SrcQP = w.DestQP, q.num
	if p.QKey = w.QKey; w.QKey&(1<<31) != 0 { // a privileged key in the request stands for the QP's own (IBTA volume 1, 10.2.5)
		p.QKey = q.attr.QKey
	}
	if q.typ == ci.QP1 {
		p.QKey = qp1QKey
	}
	p.SL, p.PathBits = av.attr.SL, av.attr.PathBits
	q.endOfMessage(p, e)
	p.PSN = q.req.newPSN
	q.req.newPSN = psnAdd(p.PSN, 1)
	e.npkts = 1
	return ci.WCSuccess
}

// receiveDatagram takes a datagram: it fits, or it is dropped and counted.
func (q *QP) receiveDatagram(r *run, p *Packet) {
	s := &q.resp
	drop := func(c Counter) { q.hca.count.add(c, 1) }
	if p.Op != wire.OpSend || !p.Start || !p.End || p.N != 1 {
		drop(DropService)
		return
	}
	pkeyIx, ok := q.matchPKey(p.PKey)
	if !ok {
		drop(DropPKey)
		saturate(&q.port.pkeyErrors)
		return
	}
	want := q.attr.QKey
	if q.typ == ci.QP1 {
		want = qp1QKey
	}
	if q.typ != ci.QP0 && p.QKey != want {
		drop(DropQKey)
		saturate(&q.port.qkeyErrors)
		return
	}
	if p.Len > q.mtu {
		drop(DropLength)
		return
	}
	if v := q.takeRecv(); v != placed {
		if v == notReady {
			drop(DropNoRecv)
		} else {
			q.localRecvError(r, v)
		}
		return
	}
	var room uint64
	for i := range s.rw.SGL {
		room += uint64(s.rw.SGL[i].Length)
	}
	if grhSize+uint64(p.Len) > room {
		drop(DropLength) // the buffer waits for a datagram that fits
		return
	}
	v := placed
	if p.GRH != nil {
		r.grh[0] = p.GRH
		v = r.scatter(q, q.recvPD(), s.rw.SGL, 0, r.grh[:], uint32(len(p.GRH)))
		r.grh[0] = nil
	}
	if v == placed {
		v = r.scatter(q, q.recvPD(), s.rw.SGL, grhSize, p.Payload, p.Len)
	}
	if v != placed {
		q.localRecvError(r, v)
		return
	}
	wc := r.complete(q.recvCQ, p.SE)
	wc.ID, wc.Length, wc.Op, wc.SrcQP = s.rw.ID, grhSize+p.Len, ci.WCRecv, p.SrcQP
	wc.SLID, wc.SL, wc.PathBits, wc.PKeyIndex = p.Src.LID, p.SL, p.PathBits, pkeyIx
	if p.GRH != nil {
		wc.Flags |= ci.WCGRH
	}
	if p.HasImm {
		wc.Flags |= ci.WCImmediate
		wc.Imm = p.Imm
	}
	s.have = false
}

// matchPKey holds a packet's partition against the QP's: QP0 takes any, QP1 any in the port's table.
func (q *QP) matchPKey(k ci.PKey) (uint16, bool) {
	switch q.typ {
	case ci.QP0:
		return 0, true
	case ci.QP1:
		for i, t := range q.port.attr.Load().PKeys {
			if t&0x7fff != 0 && pkeyMatch(k, t) {
				return uint16(i), true
			}
		}
		return 0, false
	}
	return 0, pkeyMatch(k, q.pkey)
}
