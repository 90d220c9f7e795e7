package rchca

import (
	"ciddk/ci"
	"ciddk/templates/rchca/queues"
)

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	errRecvHandle = fail("QP.PostRecv", ci.InvalidQPHandle, "")
	errRecvState  = fail("QP.PostRecv", ci.InvalidQPState, "the QP is in Reset")
	errRecvFull   = fail("QP.PostRecv", ci.InsufficientResources, "the receive queue is full")
	errRecvSGE    = fail("QP.PostRecv", ci.InvalidMaxSGE, "more segments than the QP has")
)

// PostSend writes requests to the send queue up to the first invalid one, and rings the doorbell once. Status:
// InvalidQPState, InsufficientResources, InvalidWRType, InvalidMaxSGE, InvalidParameter, Unsupported, InvalidQPHandle.
// Context: data.
func (q *qp) PostSend(wrs []ci.SendWR) (n int, err error) {
	q.sq.post.Lock()
	defer q.sq.post.Unlock()
	return q.postSend(wrs)
}

// postSend is PostSend with sq.post held.
func (q *qp) postSend(wrs []ci.SendWR) (n int, err error) {
	if !q.alive() {
		return 0, queues.ErrHandle
	}
	if len(wrs) > 0 && q.sq.isBefore(ci.QPRTS) {
		return 0, queues.ErrState
	}
	room := q.sq.free()
	for n < len(wrs) {
		if bad := queues.CheckSend(&q.create.QPCaps, &wrs[n]); bad != nil {
			err = bad
			break
		}
		if n == room {
			err = queues.ErrFull
			break
		}
		q.hca.dev.WriteSend(q.num, q.sq.take(wrs[n].ID), &wrs[n])
		n++
	}
	if n > 0 {
		q.hca.dev.RingSend(q.num, n)
	}
	return n, err
}

// PostRecv writes requests to the receive queue, as PostSend. Status: InvalidQPState, InsufficientResources,
// InvalidMaxSGE, InvalidQPHandle. Context: data.
func (q *qp) PostRecv(wrs []ci.RecvWR) (n int, err error) {
	q.rq.post.Lock()
	defer q.rq.post.Unlock()
	if !q.alive() {
		return 0, errRecvHandle
	}
	if len(wrs) > 0 && q.rq.isBefore(ci.QPInit) {
		return 0, errRecvState
	}
	room := q.rq.free()
	for n < len(wrs) {
		switch {
		case len(wrs[n].SGL) > q.create.RecvSGE:
			err = errRecvSGE
		case n == room:
			err = errRecvFull
		}
		if err != nil {
			break
		}
		q.hca.dev.WriteRecv(q.num, q.rq.take(wrs[n].ID), &wrs[n])
		n++
	}
	if n > 0 {
		q.hca.dev.RingRecv(q.num, n)
	}
	return n, err
}

// isBefore reports whether the state is before the first one that accepts posts.
func (r *ring) isBefore(from ci.QPState) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state < from
}
