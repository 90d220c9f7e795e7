package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// sendError completes the oldest request with an error. A reliable connection is over with it; other services stop sending only
// (IBTA volume 1, 10.3.1 and 10.10.2).
func (q *QP) sendError(r *run, st ci.WCStatus) {
	s := &q.req
	if s.head != s.tail {
		q.sendCompletion(r, s.at(s.head), st)
		s.head++
		r.done++
	}
	if q.service == wire.RC {
		q.toError(r)
		return
	}
	q.setState(ci.QPSQError)
	q.notify.event(ci.EventSQError, 0, 0)
	q.flushSends(r)
}

// recvError completes the receive in progress with an error.
func (q *QP) recvError(r *run, st ci.WCStatus) {
	s := &q.resp
	wc := r.complete(q.recvCQ, true)
	wc.ID, wc.Op, wc.Status = s.rw.ID, ci.WCRecv, st
	s.have, s.in = false, false
}

// localRecvError is a fault of a receive buffer of a service that tells the sender nothing.
func (q *QP) localRecvError(r *run, v verdict) {
	st := ci.WCLocalProtErr
	if v == badWork {
		st = ci.WCLocalOpErr
	}
	q.recvError(r, st)
	q.toError(r)
}

// toError takes the QP to Error, and begins to flush it. A turn must follow for what the quantum does not pay for.
func (q *QP) toError(r *run) {
	if q.current() == ci.QPError {
		return
	}
	q.lastAck(r)
	q.setState(ci.QPError)
	q.flushSends(r)
	q.flushRecvs(r)
	if q.srq != nil {
		q.notify.event(ci.EventLastWQE, 0, 0)
	}
}

// fatal is toError for a fault that no packet or request caused.
func (q *QP) fatal() {
	q.mu.Lock()
	if st := q.current(); st != ci.QPReset && st != ci.QPError {
		r := newRun(q)
		q.notify.event(ci.EventQPFatal, 0, 0)
		q.toError(r)
		r.finish()
		r.free()
		q.pending.Store(true)
	}
	q.unlock()
}

// flushSends completes what is posted to the send queue, in order, as flushed. What the quantum does not pay for is left to later turns.
func (q *QP) flushSends(r *run) {
	s := &q.req
	for {
		for ; s.head != s.tail && !r.left.isSpent(); s.head++ {
			r.left.spend(1, 0)
			e := s.at(s.head)
			st := ci.WCFlushErr
			if e.done {
				st = ci.WCSuccess
			}
			if st != ci.WCSuccess || e.w.Flags&ci.SendSignaled != 0 || q.flags&ci.SignalAll != 0 {
				q.sendCompletion(r, e, st)
			}
			e.unbind()
			e.w.AV, e.w.Ext, e.w.Inline = nil, nil, nil
			r.done++
		}
		s.next, s.off = s.head, 0
		if s.head != s.tail {
			r.more = true
			break
		}
		if !q.decode() {
			break
		}
	}
	s.psn, s.una, s.max = s.newPSN, s.newPSN, s.newPSN
	s.reads, s.bytes, s.heeded = 0, 0, sequenceErrors{}
	s.retryAt, s.lateness, s.rnrAt, s.nakAt, s.pacing = 0, lateness{}, 0, 0, pacing{}
}

// endFlush completes a flush that is under way before the send queue is used again. It is bounded by what is posted now.
func (q *QP) endFlush() {
	for range q.sq.Len()/turnPackets + 1 {
		r := newRun(q)
		q.flushSends(r)
		r.finish()
		more := r.more
		r.free()
		if !more {
			return
		}
	}
}

// unbind takes back the key that a type 1 bind was posted with, and will not get.
func (e *sendEntry) unbind() {
	if e.w.Op == ci.OpBindMW && !e.done && e.w.Ext != nil && e.w.Ext.MW != nil {
		e.w.Ext.MW.dropKey(e.w.Ext.Bind.Key)
	}
}

// flushRecvs completes the receive in progress and what is posted to the QP's own receive queue as flushed, as far as the quantum goes.
func (q *QP) flushRecvs(r *run) {
	s := &q.resp
	if s.have {
		q.recvError(r, ci.WCFlushErr)
	}
	s.out, s.ackDue, s.nakDue, s.gapAt = s.out[:0], false, false, 0
	if q.rq == nil {
		return
	}
	for {
		if r.left.isSpent() {
			r.more = r.more || q.rq.Len() > 0
			return
		}
		if q.takeRecv() == notReady {
			return
		}
		r.left.spend(1, 0)
		q.recvError(r, ci.WCFlushErr)
	}
}
