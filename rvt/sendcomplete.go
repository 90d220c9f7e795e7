package rvt

import (
	"ciddk/ci"
)

// retire completes the requests at the head of the window that are done.
func (r *requester) retire(t *turn) {
	for r.head != r.next || r.head != r.tail && r.at(r.head).done {
		e := r.at(r.head)
		if !e.done {
			break
		}
		if r.head == r.next {
			r.next++
			r.off = 0
		}
		r.head++
		t.done++
		if e.w.Flags&ci.SendSignaled != 0 || r.flags&ci.QPSignalAll != 0 {
			r.sendCompletion(t, e, ci.WCSuccess)
		}
		e.w.AV, e.w.Ext, e.w.Inline = nil, nil, nil
	}
	r.checkDrained()
}

// checkDrained takes a draining QP to SQD when no request that has started is left.
func (r *requester) checkDrained() {
	if r.current() != ci.QPSQDraining {
		return
	}
	if r.head != r.tail && r.at(r.head).started {
		return
	}
	r.setState(ci.QPSQD)
	if r.drainEvent {
		r.notify.Event(ci.Event{Type: ci.EventSQDrained})
	}
}

var wcOps = [...]ci.WCOp{
	ci.OpSend: ci.WCSend, ci.OpWrite: ci.WCWrite, ci.OpRead: ci.WCRead, ci.OpCompareSwap: ci.WCCompareSwap,
	ci.OpFetchAdd: ci.WCFetchAdd, ci.OpLSO: ci.WCLSO, ci.OpNop: ci.WCNop, ci.OpLocalInv: ci.WCLocalInv,
	ci.OpFastReg: ci.WCFastReg, ci.OpBindMW: ci.WCBindMW, ci.OpAtomicWrite: ci.WCAtomicWrite,
	ci.OpFlush: ci.WCFlush,
}

func (r *requester) sendCompletion(t *turn, e *sendEntry, st ci.WCStatus) {
	wc := t.complete(r.sendCQ, false)
	wc.ID, wc.Status = e.w.ID, st
	if int(e.w.Op) < len(wcOps) {
		wc.Op = wcOps[e.w.Op]
	}
	if st == ci.WCSuccess && e.npkts > 0 {
		wc.Length = uint32(e.w.Length)
	}
}
