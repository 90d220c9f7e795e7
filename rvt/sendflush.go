package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// sendError completes the oldest request with an error. It ends a reliable connection. Other services only stop sending
// (IBTA volume 1, 10.3.1 and 10.10.2).
func (r *requester) sendError(t *turn, st ci.WCStatus) {
	if r.head != r.tail {
		r.sendCompletion(t, r.at(r.head), st)
		r.head++
		t.done++
	}
	if r.service == wire.RC {
		r.host.toError(t)
		return
	}
	r.setState(ci.QPSQError)
	r.notify.Event(ci.Event{Type: ci.EventSQError})
	r.flushSends(t)
}

// failAt fails the request e once everything before it is complete.
func (r *requester) failAt(t *turn, e *sendEntry, st ci.WCStatus) {
	if r.at(r.head) == e {
		r.sendError(t, st)
	}
}

// flushSends completes the posts of the send queue in order as flushed, as far as the quantum allows.
func (r *requester) flushSends(t *turn) {
	for {
		for ; r.head != r.tail && !t.left.isSpent(); r.head++ {
			t.left.spend(1, 0)
			e := r.at(r.head)
			st := ci.WCFlushErr
			if e.done {
				st = ci.WCSuccess
			}
			if st != ci.WCSuccess || e.w.Flags&ci.SendSignaled != 0 || r.flags&ci.QPSignalAll != 0 {
				r.sendCompletion(t, e, st)
			}
			e.unbind()
			e.w.AV, e.w.Ext, e.w.Inline = nil, nil, nil
			t.done++
		}
		r.next = r.head
		if r.head != r.tail {
			t.more = true
			break
		}
		if !r.decode() {
			break
		}
	}
	r.retryAt, r.rnrAt, r.nakAt = 0, 0, 0
}

// endFlush completes a flush before the send queue is used again. Its work is limited by what is posted now.
func (r *requester) endFlush() {
	for range r.sq.Len()/turnPackets + 1 {
		t := newTurn(r.endpoint)
		r.flushSends(t)
		t.finish()
		more := t.more
		t.free()
		if !more {
			return
		}
	}
}

// unbind takes back the key of a type 1 bind that will not be executed.
func (e *sendEntry) unbind() {
	if e.w.Op == ci.OpBindMW && e.w.Ext != nil && e.w.Ext.MW != nil {
		e.w.Ext.MW.dropKey(e.w.Ext.Bind.Key)
	}
}
