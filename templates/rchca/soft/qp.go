package soft

import (
	"time"

	"ciddk/ci"
	"ciddk/templates/rchca"
)

// A qp is a queue pair. Its queues number the requests from 0; the slot of a request is its number modulo the depth.
type qp struct {
	d        *Device
	n        ci.QPN
	c        rchca.QPConfig
	state    ci.QPState
	attr     ci.QPAttr
	sq       []sendSlot
	rq       []recvSlot
	sqh, sqt int // numbers of requests passed to the hardware, and completed
	rqh, rqt int

	retryAt      time.Time // time of the next attempt of the request at sqt
	retries, rnr int       // attempts left for that request
	started      bool      // the request was tried
	commRaised   bool      // EventQPComm was raised
}

// A sendSlot is a copy of a send request.
type sendSlot struct {
	ci.SendWR
	to     ci.AVAttr  // ud.go
	bind   rchca.Bind // mw.go
	sgl    []ci.SGE
	inline []byte
}

// A recvSlot is a copy of a receive request.
type recvSlot struct{ sgl []ci.SGE }

func (q *qp) sends() int { return q.sqh - q.sqt }

// recvs returns the number of receives that the QP can take.
func (q *qp) recvs() int {
	if q.c.SRQ != 0 { // srq.go
		return q.shared().ready
	}
	return q.rqh - q.rqt
}

// front returns the bytes of the oldest receive, and their number.
func (q *qp) front() (list []span, total uint64, ok bool) {
	if q.c.SRQ != 0 { // srq.go
		s := q.shared()
		return q.d.resolve(s.pd, s.slots[s.written[0]].sgl, ci.LocalWrite)
	}
	return q.d.resolve(q.c.PD, q.rq[q.rqt%len(q.rq)].sgl, ci.LocalWrite)
}

// CreateQP implements rchca.Device.
func (d *Device) CreateQP(c rchca.QPConfig) (ci.QPN, error) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	n, err := d.number()
	if err != nil {
		return 0, err
	}
	q := &qp{d: d, n: ci.QPN(n), c: c, sq: make([]sendSlot, c.Caps.SendDepth), rq: make([]recvSlot, c.Caps.RecvDepth)}
	for i := range q.sq {
		q.sq[i].sgl, q.sq[i].inline = make([]ci.SGE, 0, c.Caps.SendSGE), make([]byte, 0, c.Caps.MaxInline)
	}
	for i := range q.rq {
		q.rq[i].sgl = make([]ci.SGE, 0, c.Caps.RecvSGE)
	}
	d.qps[q.n] = q
	return q.n, nil
}

// DestroyQP implements rchca.Device.
func (d *Device) DestroyQP(n ci.QPN) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil { // mw.go
		q.discardBinds()
	}
	delete(d.qps, n)
	return nil
}

// QPState implements rchca.Device.
func (d *Device) QPState(n ci.QPN) ci.QPState {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil {
		return q.state
	}
	return ci.QPReset
}

// ModifyQP implements rchca.Device.
func (d *Device) ModifyQP(n ci.QPN, set ci.QPField, a *ci.QPAttr) error {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	q := d.qps[n]
	if q == nil {
		return ci.InvalidQPHandle
	}
	rchca.Apply(&q.attr, set, a)
	if set&ci.QPFieldState == 0 {
		return nil
	}
	switch {
	case a.State == ci.QPReset:
		q.discardBinds() // mw.go
		*q = qp{d: d, n: n, c: q.c, sq: q.sq, rq: q.rq}
	case a.State == ci.QPError:
		q.fatal(0)
	case a.State == ci.QPSQD && q.state == ci.QPRTS:
		q.state, q.attr.SQDEvent = ci.QPSQDraining, set&ci.QPFieldSQDEvent != 0 && a.SQDEvent
		q.drained()
	default:
		q.state = a.State
	}
	d.kick()
	return nil
}

// WriteSend implements rchca.Device.
func (d *Device) WriteSend(n ci.QPN, slot int, wr *ci.SendWR) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil {
		s := &q.sq[slot]
		s.SendWR, s.inline = *wr, append(s.inline[:0], wr.Inline...)
		s.sgl = s.sgl[:0]
		if wr.Inline == nil {
			s.sgl = append(s.sgl, wr.SGL...)
		}
		s.SGL, s.Inline, s.Ext = nil, nil, nil
	}
}

// WriteRecv implements rchca.Device.
func (d *Device) WriteRecv(n ci.QPN, slot int, wr *ci.RecvWR) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil {
		q.rq[slot].sgl = append(q.rq[slot].sgl[:0], wr.SGL...)
	}
}

// RingSend implements rchca.Device.
func (d *Device) RingSend(n ci.QPN, count int) { d.ring(n, count, 0) }

// RingRecv implements rchca.Device.
func (d *Device) RingRecv(n ci.QPN, count int) { d.ring(n, 0, count) }

func (d *Device) ring(n ci.QPN, sends, recvs int) {
	d.fab.mu.Lock()
	defer d.fab.mu.Unlock()
	if q := d.qps[n]; q != nil {
		q.sqh, q.rqh = q.sqh+sends, q.rqh+recvs
		switch q.state {
		case ci.QPError:
			q.flush()
		case ci.QPSQError: // ud.go
			q.flushSends()
		}
		d.kick()
	}
}

// complete completes the send at sqt.
func (q *qp) complete(status ci.WCStatus, length uint32) {
	slot := q.sqt % len(q.sq)
	s := &q.sq[slot]
	q.sqt++
	q.started = false
	q.d.completeBind(s) // mw.go
	if status == ci.WCSuccess && s.Flags&ci.SendSignaled == 0 && !q.c.SignalAll {
		return
	}
	op := ci.WCSend
	switch s.Op {
	case ci.OpWrite:
		op = ci.WCWrite
	case ci.OpRead:
		op = ci.WCRead
	case ci.OpNop:
		op = ci.WCNop
	case ci.OpBindMW: // mw.go
		op = ci.WCBindMW
	case ci.OpLocalInv: // mw.go
		op = ci.WCLocalInv
	}
	q.d.push(q.c.SendCQ, rchca.CQE{QPN: q.n, Slot: slot, Status: status, Op: op, Length: length}, false)
}

// receive completes the oldest receive.
func (q *qp) receive(e rchca.CQE, solicited bool) {
	e.QPN, e.Recv = q.n, true
	if q.c.SRQ != 0 { // srq.go
		e.Slot = q.take()
		q.d.push(q.c.RecvCQ, e, solicited)
		return
	}
	e.Slot = q.rqt % len(q.rq)
	q.rqt++
	q.d.push(q.c.RecvCQ, e, solicited)
}

// drained moves a draining QP to QPSQD if no request is in progress.
func (q *qp) drained() {
	if q.state != ci.QPSQDraining || q.started {
		return
	}
	q.state = ci.QPSQD
	if q.attr.SQDEvent {
		d, n := q.d, q.n
		d.raise(func() { d.h.QPEvent(n, ci.EventSQDrained) })
	}
}

// fatal moves the QP to Error. It raises the event t, unless t is 0.
func (q *qp) fatal(t ci.EventType) {
	if q.state == ci.QPError {
		return
	}
	q.state = ci.QPError
	if q.c.SRQ != 0 { // srq.go
		d, n := q.d, q.n
		d.raise(func() { d.h.QPEvent(n, ci.EventLastWQE) })
	}
	if t != 0 {
		d, n := q.d, q.n
		d.raise(func() { d.h.QPEvent(n, t) })
	}
	q.flush()
}

// flush completes all requests with ci.WCFlushErr.
func (q *qp) flush() {
	q.flushSends()
	if q.c.SRQ != 0 { // srq.go
		return
	}
	for q.recvs() > 0 {
		q.receive(rchca.CQE{Status: ci.WCFlushErr, Op: ci.WCRecv}, false)
	}
}

// flushSends completes the requests in the send queue with ci.WCFlushErr.
func (q *qp) flushSends() {
	for q.sends() > 0 {
		q.complete(ci.WCFlushErr, 0)
	}
}
