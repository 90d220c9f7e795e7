package rchca

import "ciddk/ci"

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	errSendHandle = fail("QP.PostSend", ci.InvalidQPHandle, "")
	errSendState  = fail("QP.PostSend", ci.InvalidQPState, "the QP is not in RTS or a later state")
	errSendFull   = fail("QP.PostSend", ci.InsufficientResources, "the send queue is full")
	errSendType   = fail("QP.PostSend", ci.InvalidWRType, "not an operation of RC")
	errSendSGE    = fail("QP.PostSend", ci.InvalidMaxSGE, "more segments than the QP has")
	errSendInline = fail("QP.PostSend", ci.InvalidParameter, "inline data are too long, or the operation is not a "+
		"SEND or WRITE")
	errSendClaim = fail("QP.PostSend", ci.Unsupported, "the adapter does not claim the operation or flag")

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
	if !q.alive() {
		return 0, errSendHandle
	}
	if len(wrs) > 0 && q.sq.isBefore(ci.QPRTS) {
		return 0, errSendState
	}
	room := q.sq.free()
	for n < len(wrs) {
		if err = q.checkSend(&wrs[n]); err == nil && n == room {
			err = errSendFull
		}
		if err != nil {
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

// checkSend checks the form of a request, which the hardware does not check.
func (q *qp) checkSend(wr *ci.SendWR) error {
	switch wr.Op {
	case ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpNop:
	case ci.OpCompareSwap, ci.OpFetchAdd, ci.OpLocalInv, ci.OpFastReg, ci.OpBindMW:
		return errSendClaim
	default:
		return errSendType
	}
	switch {
	case wr.Flags&ci.SendInvalidate != 0 && wr.Op == ci.OpSend, wr.Flags&(ci.SendIPChecksum|ci.SendL4Checksum) != 0:
		return errSendClaim
	case len(wr.Inline) > 0 && (wr.Op != ci.OpSend && wr.Op != ci.OpWrite || len(wr.Inline) > q.create.MaxInline):
		return errSendInline
	case len(wr.Inline) == 0 && len(wr.SGL) > q.create.SendSGE:
		return errSendSGE
	}
	return nil
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
