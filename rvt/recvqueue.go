package rvt

import (
	"ciddk/ci"
)

// takeRecv takes the next receive buffer, unless a message that was lost has left one.
func (r *responder) takeRecv() outcome {
	if r.have { // of a message that was lost on the way (UC, UD), or of a train that is executed again
		return r.takenRecv()
	}
	r.rw.SGL = r.rw.SGL[:0]
	r.rw.Bad = false
	if r.takes != nil {
		if !r.takes.Take(&r.rw) {
			return notReady
		}
		r.taken = true
	} else if !r.source.Next(&r.rw) {
		return notReady
	}
	r.have = true
	return r.takenRecv()
}

// takenRecv is the outcome of taking the receive in progress.
func (r *responder) takenRecv() outcome {
	if r.rw.Bad {
		return badWork
	}
	return placed
}

// recvError completes the receive in progress with an error.
func (r *responder) recvError(t *turn, st ci.WCStatus) {
	wc := t.complete(r.recvCQ, true)
	wc.ID, wc.Op, wc.Status = r.rw.ID, ci.WCRecv, st
	r.have, r.in = false, false
}

// localRecvError completes the receive with an error and takes the QP to Error, for services that report nothing to the
// sender.
func (r *responder) localRecvError(t *turn, v outcome) {
	st := ci.WCLocalProtErr
	if v == badWork {
		st = ci.WCLocalOpErr
	}
	r.recvError(t, st)
	r.host.toError(t)
}

// flushRecvs completes the receive in progress and the posts of the QP's own receive queue as flushed, as far as the
// quantum allows.
func (r *responder) flushRecvs(t *turn) {
	if r.have {
		r.recvError(t, ci.WCFlushErr)
	}
	r.out, r.ackDue = r.out[:0], false
	r.nakDue, r.gapAt = false, 0
	if r.rq == nil {
		return
	}
	for {
		if t.left.isSpent() {
			t.more = t.more || r.rq.Len() > 0
			return
		}
		if r.takeRecv() == notReady {
			return
		}
		t.left.spend(1, 0)
		r.recvError(t, ci.WCFlushErr)
	}
}
