package mlx4

import "ciddk/ci"

// Posts to an adapter that has failed.
var (
	errSendFailed   = fail("QP.PostSend", ci.InvalidState, "the adapter has failed")
	errRecvFailed   = fail("QP.PostRecv", ci.InvalidState, "the adapter has failed")
	errBindFailed   = fail("QP.BindMW", ci.InvalidState, "the adapter has failed")
	errSharedFailed = fail("SRQ.PostRecv", ci.InvalidState, "the adapter has failed")
)

// flush ends the work of an adapter that has failed: all outstanding requests of its QPs complete with WCFlushErr,
// after the completions that the adapter has written. Receives of SRQs remain outstanding.
func (h *HCA) flush() {
	for q := range h.qpTable.all() {
		q.flush()
	}
}

// flush completes the outstanding requests of the QP, and ends posts to it.
func (q *qp) flush() {
	q.stopPosts()
	defer q.resumePosts()
	q.hasFailed = true
	if q.memory == nil {
		return // Destroy has released the queues
	}
	q.setState(ci.QPError)
	if q.user != nil {
		return // the library flushes them
	}
	q.send.end()
	q.recv.end()
	q.discardBinds()
	q.send.flush(q, ci.WCSend, q.sq)
	if q.rq != nil {
		q.recv.flush(q, ci.WCRecv, q.rq)
	}
}

// A ring is a send queue or a receive queue.
type ring interface {
	// Oldest returns the index of the oldest outstanding request.
	Oldest() (index uint16, ok bool)
	// Complete releases the slots up to that of an index, and returns the ID of its request.
	Complete(index uint16) (id uint64, ok bool)
}

// end keeps the completions that the adapter has written. Later ones do not count.
func (q *cq) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.hasEnded && q.user == nil {
		q.drain()
		q.hasEnded = true
	}
}

// flush adds a completion for each outstanding request of a queue of x, and raises the event that is armed.
func (q *cq) flush(x *qp, op ci.WCOp, r ring) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.saved)
	for {
		index, ok := r.Oldest()
		if !ok {
			break
		}
		id, _ := r.Complete(index) // it is outstanding
		q.saved = append(q.saved,
			ci.WC{ID: id, Context: x.create.Context, QPN: x.num, Status: ci.WCFlushErr, Op: op})
	}
	if len(q.saved) > n && q.arm.command != 0 {
		q.arm.command = 0
		q.notify.Completion()
	}
}
