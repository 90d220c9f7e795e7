package rvt

import "ciddk/ci"

const qp1QKey = 0x80010000 // IBTA volume 1, 3.5.3

// transmitDatagrams sends the requests of a datagram QP.
func (r *requester) transmitDatagrams(t *turn) {
	for r.current() == ci.QPRTS {
		if r.head == r.tail && !r.decode() {
			break
		}
		if t.left.isSpent() {
			t.more = true
			break
		}
		if r.copies && t.ahead.isUsed() {
			r.readAhead(t, r.head)
		}
		t.left.spend(1, uint32(min(r.at(r.head).w.Length, uint64(r.mtu))))
		e := r.at(r.head)
		if st := r.sendDatagram(t, e); st != ci.WCSuccess {
			r.sendError(t, st)
			return
		}
		e.started, e.done = true, true
		r.retire(t)
	}
	r.checkDrained()
}

func (r *requester) sendDatagram(t *turn, e *sendEntry) ci.WCStatus {
	w := &e.w
	switch {
	case w.Bad != ci.WCSuccess:
		return w.Bad
	case w.Op == ci.OpNop:
		return ci.WCSuccess
	case w.Op != ci.OpSend || w.AV == nil || w.AV.pd != r.pd: // a ring may name any vector (IBTA volume 1, 10.2.2.2)
		return ci.WCLocalOpErr
	}
	av := w.AV.state.Load()
	if av.route == nil || av.port != r.port {
		return ci.WCLocalOpErr
	}
	if w.Offload != nil {
		return r.sendOffloaded(t, e, av)
	}
	if w.Length > uint64(r.datagramMTU(av.attr.SL)) {
		return ci.WCLocalLenErr
	}
	key := r.pkey
	if r.typ == ci.QP1 || w.FromQP1 {
		var ok bool
		if key, ok = r.port.pkey(w.PKeyIx); !ok {
			return ci.WCLocalOpErr
		}
	}
	p, _ := r.fill(t, e, 0, 1)
	if p == nil {
		return ci.WCLocalProtErr
	}
	r.addressDatagram(p, e, av, key)
	e.npkts = 1
	return ci.WCSuccess
}
