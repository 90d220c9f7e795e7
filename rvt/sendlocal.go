package rvt

import (
	"ciddk/ci"
)

// local executes an operation that sends nothing. An invalidation waits for all requests before it, since a
// retransmission may still need the key. The other operations only keep the order of the queue.
func (r *requester) local(t *turn, e *sendEntry, st ci.WCStatus) bool {
	if e.w.Op == ci.OpLocalInv && r.head != r.next {
		return false
	}
	t.left.spend(localCost(&e.w), 0)
	if st == ci.WCSuccess {
		t.send() // an operation on a region must not wait for holds of this very run
		switch e.w.Op {
		case ci.OpNop:
		case ci.OpLocalInv:
			if !e.applied {
				st = r.dev.localInv(r.endpoint, e.w.Inv)
				e.applied = st == ci.WCSuccess
			}
			// The invalidation is complete when no earlier access is in progress (IBTA volume 1, 10.6.5).
			if e.applied && !r.dev.keys.settled(e.w.Inv, nil) && !r.dev.keys.settled(e.w.Inv, r.host.kick) {
				return false
			}
		case ci.OpFastReg:
			st = r.dev.fastReg(r.endpoint, e.w.Ext)
		case ci.OpBindMW:
			st = r.dev.bindMW(r.endpoint, e.w.Ext)
		default:
			st = ci.WCLocalOpErr
		}
	}
	if st != ci.WCSuccess {
		r.failAt(t, e, st)
		return false
	}
	e.started, e.done = true, true
	e.first, e.npkts = r.newPSN, 0
	return true
}

// localCost returns the packets of the quantum that an operation without packets uses. A fast registration looks up
// each page.
func localCost(w *Work) uint32 {
	if w.Op == ci.OpFastReg && w.Ext != nil {
		return 1 + uint32(len(w.Ext.FastReg.Pages))/8
	}
	return 1
}
