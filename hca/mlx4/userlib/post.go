package userlib

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/internal/mlx4/queue"
)

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	sendErrors    = wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors    = wrrules.NewErrors("QP.PostRecv", ci.InvalidQPHandle)
	errSendFailed = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidState, Detail: "the adapter has failed"}
	errRecvFailed = &ci.Error{Verb: "QP.PostRecv", Status: ci.InvalidState, Detail: "the adapter has failed"}

	errSharedFailed = &ci.Error{Verb: "SRQ.PostRecv", Status: ci.InvalidState, Detail: "the adapter has failed"}
)

// state returns the state in which the driver has set the QP.
func (q *qp) state() ci.QPState { return ci.QPState(q.control.State().State) }

// postSend implements ci.UserQP.PostSend.
func (q *qp) postSend(wrs []ci.SendWR) (n int, err error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	switch {
	case q.life.IsOver():
		return 0, sendErrors.Destroyed
	case q.pd.ca.head.HasFailed():
		return 0, errSendFailed
	case len(wrs) == 0:
		return 0, nil
	case q.state() < ci.QPRTS:
		return 0, sendErrors.State
	}
	room := q.sq.Room()
	for n < len(wrs) {
		if r := q.resolve(&wrs[n]); r != wrrules.OK {
			err = sendErrors.Of(r)
			break
		}
		if n >= room {
			err = sendErrors.Full
			break
		}
		q.write(&wrs[n])
		n++
	}
	if n > 0 {
		q.pd.ca.ring(q.doorbell)
	}
	return n, err
}

// resolve checks a request, and finds the objects that it names.
func (q *qp) resolve(w *ci.SendWR) wrrules.Reason {
	r := wrrules.Request{Op: w.Op, Flags: w.Flags, SGEs: len(w.SGL), IsInline: w.Inline != nil, Inline: len(w.Inline),
		QPN: w.To.QPN}
	q.extra = queue.Extra{Signal: q.signalAll}
	switch {
	case (w.Op == ci.OpSend || w.Op == ci.OpLSO) && q.rules.Type == ci.UD:
		r.HasObjects = w.Op == ci.OpLSO && queue.IsLSO(w)
		v, ok := ci.UserHandle[*av](w.To.AV)
		r.HasAV = ok && v.pd == q.pd && !v.destroyed.Load()
	case w.Op == ci.OpBindMW:
		r.HasObjects = q.hasBind(w)
	}
	return q.rules.Check(&r)
}

// badOpcode is an opcode that no service has. The adapter completes the request with an error, in its turn.
const badOpcode = 0x0f

// write writes a request that has been checked to the next slot.
func (q *qp) write(w *ci.SendWR) {
	isBad := false
	switch {
	case (w.Op == ci.OpSend || w.Op == ci.OpLSO) && q.rules.Type == ci.UD:
		x, _ := ci.UserHandle[*av](w.To.AV)
		v := x.now.Load()
		isBad = v.isBad || v.port != q.control.State().Port
		q.extra.Address = &v.address
	case w.Op == ci.OpBindMW:
		q.binds.Keep(q.sq, q.binding)
	}
	opcode, units := queue.EncodeSend(q.sq.Next(), w, &q.extra)
	if isBad {
		opcode = badOpcode
	}
	q.sq.Commit(w, opcode, units)
}

// postRecv implements ci.UserQP.PostRecv.
func (q *qp) postRecv(wrs []ci.RecvWR) (n int, err error) {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	switch {
	case q.life.IsOver():
		return 0, recvErrors.Destroyed
	case q.pd.ca.head.HasFailed():
		return 0, errRecvFailed
	case len(wrs) == 0:
		return 0, nil
	case q.srq != nil:
		return 0, recvErrors.Of(wrrules.WRType)
	case q.state() < ci.QPInit:
		return 0, recvErrors.State
	case q.rq == nil:
		return 0, recvErrors.Full
	}
	room := q.rq.Room()
	for n < len(wrs) {
		if len(wrs[n].SGL) > q.recvSGE {
			err = recvErrors.Of(wrrules.SGEs)
			break
		}
		if n >= room {
			err = recvErrors.Full
			break
		}
		q.rq.Put(&wrs[n])
		n++
	}
	if n > 0 {
		q.rq.Publish()
	}
	return n, err
}
