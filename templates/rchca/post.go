package rchca

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
)

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	sendErrors = wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors = wrrules.NewErrors("QP.PostRecv", ci.InvalidQPHandle)
)

// PostSend writes requests to the send queue up to the first invalid one, and rings the doorbell once. Status:
// InvalidQPState, InsufficientResources, InvalidWRType, InvalidMaxSGE, InvalidAVHandle, InvalidParameter, Unsupported,
// InvalidQPHandle. Context: data.
func (q *qp) PostSend(wrs []ci.SendWR) (n int, err error) {
	q.sq.post.Lock()
	defer q.sq.post.Unlock()
	return q.postSend(wrs)
}

// postSend is PostSend with sq.post held.
func (q *qp) postSend(wrs []ci.SendWR) (n int, err error) {
	if !q.refs.Alive() {
		return 0, sendErrors.Destroyed
	}
	if len(wrs) > 0 && q.sq.isBefore(ci.QPRTS) {
		return 0, sendErrors.State
	}
	room := q.sq.free()
	for n < len(wrs) {
		if bad := q.check(&wrs[n]); bad != wrrules.OK {
			err = sendErrors.Of(bad)
			break
		}
		if n == room {
			err = sendErrors.Full
			break
		}
		q.write(q.sq.take(wrs[n].ID), &wrs[n])
		n++
	}
	if n > 0 {
		q.hca.dev.RingSend(q.num, n)
	}
	return n, err
}

// check checks what the hardware does not: the form of a request, and the objects that it names.
func (q *qp) check(wr *ci.SendWR) wrrules.Reason {
	r := wrrules.Request{Op: wr.Op, Flags: wr.Flags, SGEs: len(wr.SGL), Inline: len(wr.Inline),
		IsInline: wr.Inline != nil}
	if q.create.Type == ci.UD { // ud.go
		r.HasAV, r.QPN = q.resolve(wr.To.AV), wr.To.QPN
	}
	if wr.Op == ci.OpBindMW && wr.Ext != nil { // mw.go
		r.HasObjects = q.canBind(&wr.Ext.Bind)
	}
	return q.rules.Check(&r)
}

// write writes a request to a slot of the send queue.
func (q *qp) write(slot int, wr *ci.SendWR) {
	if q.create.Type == ci.UD { // ud.go
		q.hca.dev.WriteDatagram(q.num, slot, wr, &q.to)
		return
	}
	if wr.Op == ci.OpBindMW { // mw.go
		q.hca.dev.WriteBind(q.num, slot, wr, &q.bind)
		return
	}
	q.hca.dev.WriteSend(q.num, slot, wr)
}

// PostRecv writes requests to the receive queue, as PostSend. Status: InvalidQPState, InsufficientResources,
// InvalidMaxSGE, InvalidQPHandle. Context: data.
func (q *qp) PostRecv(wrs []ci.RecvWR) (n int, err error) {
	q.rq.post.Lock()
	defer q.rq.post.Unlock()
	if !q.refs.Alive() {
		return 0, recvErrors.Destroyed
	}
	if q.srq != nil { // srq.go
		return 0, recvErrors.Of(wrrules.WRType)
	}
	if len(wrs) > 0 && q.rq.isBefore(ci.QPInit) {
		return 0, recvErrors.State
	}
	room := q.rq.free()
	for n < len(wrs) {
		switch {
		case len(wrs[n].SGL) > q.create.RecvSGE:
			err = recvErrors.Of(wrrules.SGEs)
		case n == room:
			err = recvErrors.Full
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
