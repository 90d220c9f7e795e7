package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/reference/arena"
	"ciddk/internal/mlx4/queue"
	"ciddk/internal/mlx4/userabi"
)

// qp is a queue pair.
type qp struct {
	pd             *pd
	num            ci.QPN
	hw             uint32 // number in the adapter
	context        any
	rules          wrrules.Rules
	signalAll      bool
	doorbell       uint32
	control        userabi.Control
	sendCQ, recvCQ *cq
	srq            *srq // or nil
	recvSGE        int

	sendMu  sync.Mutex // of posts
	sq      *queue.SendRing
	extra   queue.Extra
	binding queue.Bind // of the request that is being posted
	bind    bindPost
	life    arena.Life // with sendMu and recvMu

	recvMu sync.Mutex
	rq     *queue.RecvRing // nil: there is none

	// By slot, from the first bind on. Those of outstanding requests belong to the goroutine that polls, others to the
	// one that posts.
	binds queue.Binds
}

func preCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); !ok {
		return nil
	}
	_, send := ci.UserHandle[*cq](a.Create.SendCQ)
	_, recv := ci.UserHandle[*cq](a.Create.RecvCQ)
	_, shared := ci.UserHandle[*srq](a.Create.SRQ)
	if send && recv && (shared || a.Create.SRQ == nil) { // otherwise the proxy does all
		ask(ub, userabi.QPSize)
	}
	return nil
}

func postCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateQP"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 || len(ub.Out) == 0 {
		return nil
	}
	var r userabi.QP
	if err := userabi.Decode(ub.Out, &r); err != nil {
		return badAnswer(verb, "%v", err)
	}
	q := &qp{pd: d, num: a.Num, hw: r.Number, context: a.Create.Context, rules: d.ca.rules, doorbell: r.Doorbell,
		signalAll: a.Create.Flags&ci.QPSignalAll != 0, recvSGE: int(r.RecvSGE)}
	q.rules.Type, q.rules.SendSGE, q.rules.MaxInline = a.Create.Type, int(r.SendSGE), int(r.MaxInline)
	if r.Doorbell >= userabi.MaxQPs {
		return badAnswer(verb, "doorbell %d", r.Doorbell)
	}
	b, control, err := d.ca.area(verb, r.Offset, r.Size)
	if err != nil {
		return err
	}
	q.control = control
	if err := q.open(verb, &r, b); err != nil {
		return err
	}
	q.srq, _ = ci.UserHandle[*srq](a.Create.SRQ)
	q.sendCQ, _ = ci.UserHandle[*cq](a.Create.SendCQ)
	q.recvCQ, _ = ci.UserHandle[*cq](a.Create.RecvCQ)
	q.sendCQ.add(q)
	if q.recvCQ != q.sendCQ {
		q.recvCQ.add(q)
	}
	d.ca.Hold()
	a.QP = ci.UserQP{Handle: q, PostSend: q.postSend, PostRecv: q.postRecv, BindMW: q.bindMW}
	return nil
}

// open opens the queues in b.
func (q *qp) open(verb string, r *userabi.QP, b []byte) (err error) {
	part := func(at, log, shift uint32) ([]byte, bool) {
		n := uint64(1) << (log&31 + shift&31)
		if log > 15 || shift > queue.MaxSendShift || n > uint64(len(b)) || uint64(at) > uint64(len(b))-n {
			return nil, false
		}
		return b[at:][:n:n], true
	}
	send, ok := part(r.SendAt, r.SendLog, r.SendShift)
	if !ok {
		return badAnswer(verb, "a send queue of 1<<%d slots of 1<<%d bytes at %d of %d", r.SendLog, r.SendShift,
			r.SendAt, len(b))
	}
	if q.sq, err = queue.NewSendRing(send, uint8(r.SendLog), uint8(r.SendShift), int(r.SendDepth)); err != nil {
		return badAnswer(verb, "%v", err)
	}
	if r.HasRecv == 0 {
		return nil
	}
	recv, ok := part(r.RecvAt, r.RecvLog, r.RecvShift)
	if !ok {
		return badAnswer(verb, "a receive queue of 1<<%d slots of 1<<%d bytes at %d of %d", r.RecvLog, r.RecvShift,
			r.RecvAt, len(b))
	}
	q.rq, err = queue.NewRecvRing(recv, q.control.Record(), uint8(r.RecvLog), uint8(r.RecvShift), int(r.RecvDepth))
	if err != nil {
		return badAnswer(verb, "%v", err)
	}
	return nil
}

// isReset reports whether a Modify moves the QP to Reset.
func isReset(a *ci.UserModifyQP) bool {
	return a.Set&ci.QPFieldState != 0 && a.Attr.State == ci.QPReset
}

// lock holds up posts, and unlock lets them go on.
func (q *qp) lock()   { q.sendMu.Lock(); q.recvMu.Lock() }
func (q *qp) unlock() { q.recvMu.Unlock(); q.sendMu.Unlock() }

func preModifyQP(a *ci.UserModifyQP, _ *ci.UserBuffer) error {
	// Posts in progress end before the queues are emptied.
	if q, ok := a.QP.(*qp); ok && isReset(a) {
		q.lock()
	}
	return nil
}

func postModifyQP(a *ci.UserModifyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok || !isReset(a) {
		return
	}
	defer q.unlock()
	if err != nil {
		return
	}
	q.sendCQ.save()
	if q.recvCQ != q.sendCQ {
		q.recvCQ.save()
	}
	q.end()
	q.sq.Reset()
	if q.rq != nil {
		q.rq.Reset()
	}
}

// end ends the binds of a QP without outstanding requests.
func (q *qp) end() {
	q.sendCQ.mu.Lock()
	defer q.sendCQ.mu.Unlock()
	q.binds.Discard()
}

// preDestroyQP ends posts, until Destroy has failed.
func preDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer) error {
	if q, ok := a.QP.(*qp); ok {
		q.lock()
		defer q.unlock()
		q.life.Begin()
	}
	return nil
}

func postDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok {
		return
	}
	q.lock()
	hasEnded := q.life.Finish(err)
	q.unlock()
	if !hasEnded {
		return
	}
	q.sendCQ.remove(q)
	if q.recvCQ != q.sendCQ {
		q.recvCQ.remove(q)
	}
	q.end()
	q.pd.ca.Drop()
}
