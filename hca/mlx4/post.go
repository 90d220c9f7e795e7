package mlx4

import (
	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/internal/mlx4/prm"
	"ciddk/internal/mlx4/queue"
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
	q.sqMu.Lock()
	defer q.sqMu.Unlock()
	switch {
	case q.sq == nil || !q.refs.Alive():
		return 0, q.postError(sendErrors.Destroyed, errUserSend)
	case q.hasFailed:
		return 0, errSendFailed
	case len(wrs) == 0:
		return 0, nil
	case ci.QPState(q.state.Load()) < ci.QPRTS:
		return 0, sendErrors.State
	}
	room := q.sq.Room()
	var last uint32
	for n < len(wrs) {
		if n >= room {
			err = sendErrors.Full
			if r := q.resolve(&wrs[n]); r != wrrules.OK {
				err = sendErrors.Of(r)
			}
			break
		}
		if r := q.resolve(&wrs[n]); r != wrrules.OK {
			err = sendErrors.Of(r)
			break
		}
		if last, err = q.write(&wrs[n]); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		q.ring(n, last, &wrs[n-1])
	}
	return n, err
}

// resolve checks a request, and finds the objects that it names.
func (q *qp) resolve(wr *ci.SendWR) wrrules.Reason {
	r := wrrules.Request{Op: wr.Op, Flags: wr.Flags, SGEs: len(wr.SGL), IsInline: wr.Inline != nil,
		Inline: len(wr.Inline), QPN: wr.To.QPN}
	q.extra = queue.Extra{Signal: q.create.Flags&ci.QPSignalAll != 0}
	switch {
	case (wr.Op == ci.OpSend || wr.Op == ci.OpLSO) && q.isDatagram():
		r.HasObjects = wr.Op == ci.OpLSO && queue.IsLSO(wr)
		if a, ok := ci.As[*av](wr.To.AV); ok && a.refs.Alive() && a.pd == q.pd {
			r.HasAV = true
		}
	case wr.Op == ci.OpFastReg:
		r.HasObjects = q.hasFastReg(wr)
	case wr.Op == ci.OpBindMW:
		r.HasObjects = q.hasBind(wr)
	}
	return q.rules.Check(&r)
}

// write writes a request to the next slot. It returns the running index.
func (q *qp) write(wr *ci.SendWR) (uint32, error) {
	isBad := false
	switch {
	case wr.Op == ci.OpFastReg:
		if err := q.putList(wr); err != nil {
			return 0, err
		}
		isBad = q.extra.List == 0
	case (wr.Op == ci.OpSend || wr.Op == ci.OpLSO) && q.isDatagram():
		a, _ := ci.As[*av](wr.To.AV)
		v := a.now.Load()
		isBad = v.isBad || v.attr.Port != uint8(q.onPort.Load())
		if q.create.Type != ci.UD {
			units, ok := q.encodeManagement(q.sq.Next(), wr, v)
			opcode := uint8(prm.WQESend)
			if !ok || isBad {
				opcode = badOpcode
			}
			return q.sq.Commit(wr, opcode, units), nil
		}
		q.extra.Address = &v.address
	}
	return q.encodeNext(wr, isBad), nil
}

// encodeNext encodes a request that has been checked, with what extra has, to the next slot. It returns the running
// index.
func (q *qp) encodeNext(wr *ci.SendWR, isBad bool) uint32 {
	if wr.Op == ci.OpBindMW {
		q.binds.Keep(q.sq, q.binding)
	}
	opcode, units := queue.EncodeSend(q.sq.Next(), wr, &q.extra)
	if isBad {
		opcode = badOpcode
	}
	return q.sq.Commit(wr, opcode, units)
}

// badOpcode is an opcode that no service has. The adapter completes the request with an error, in its turn.
const badOpcode = 0x0f

// ring passes n requests to the adapter. A single short one with inline data is written to BlueFlame.
func (q *qp) ring(n int, last uint32, wr *ci.SendWR) {
	if n == 1 && len(wr.Inline) > 0 && q.hca.flames.isUsable {
		if q.flame = q.sq.Flame(q.flame[:0], last, q.hw); q.hca.flames.write(q.hca, q.flame) {
			return
		}
	}
	q.hca.uar.Send(q.hw)
}

// PostRecv writes requests to the receive queue, as PostSend. Status: InvalidQPState, InsufficientResources,
// InvalidMaxSGE, InvalidWRType (the QP has an SRQ), InvalidQPHandle. Context: data.
func (q *qp) PostRecv(wrs []ci.RecvWR) (n int, err error) {
	q.rqMu.Lock()
	defer q.rqMu.Unlock()
	switch {
	case q.memory == nil || q.user != nil || !q.refs.Alive():
		return 0, q.postError(recvErrors.Destroyed, errUserRecv)
	case q.hasFailed:
		return 0, errRecvFailed
	case len(wrs) == 0:
		return 0, nil
	case q.srq != nil:
		return 0, recvErrors.Of(wrrules.WRType)
	case ci.QPState(q.state.Load()) < ci.QPInit:
		return 0, recvErrors.State
	case q.rq == nil:
		return 0, recvErrors.Full
	}
	room := q.rq.Room()
	for n < len(wrs) {
		if len(wrs[n].SGL) > q.create.RecvSGE {
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
