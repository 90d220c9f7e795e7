package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/hca/reference/arena"
	"ciddk/internal/rings"
)

// qp is a queue pair.
type qp struct {
	pd             *pd
	num            ci.QPN
	rules          wrrules.Rules
	index          uint32
	sendCQ, recvCQ *cq
	recvSGE        int
	noSend, noRecv bool // created with a depth of 0

	sendMu sync.Mutex
	send   *rings.UserSend
	resets uint32 // times that the queue was emptied
	bind   bindRequest
	life   arena.Life // with sendMu and recvMu

	recvMu sync.Mutex
	recv   *rings.UserRecv // nil with an SRQ
}

func preCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer) error {
	if _, ok := a.PD.(*pd); !ok {
		return nil
	}
	_, send := ci.UserHandle[*cq](a.Create.SendCQ)
	_, recv := ci.UserHandle[*cq](a.Create.RecvCQ)
	_, shared := ci.UserHandle[*srq](a.Create.SRQ)
	if send && recv && (shared || a.Create.SRQ == nil) { // otherwise the proxy does all
		ask(ub, rings.UserQPSize)
	}
	return nil
}

func postCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer, err error) error {
	const verb = "PD.CreateQP"
	d, ok := a.PD.(*pd)
	if !ok || err != nil || ub.Status != 0 || len(ub.Out) == 0 {
		return nil
	}
	var r rings.UserQP
	if err := r.Decode(ub.Out); err != nil {
		return badAnswer(verb, "%v", err)
	}
	q := &qp{pd: d, num: ci.QPN(r.Num), rules: d.ca.rules, index: r.Index, recvSGE: int(r.Recv.SGE),
		noSend: a.Create.SendDepth == 0, noRecv: a.Create.RecvDepth == 0}
	q.rules.Type, q.rules.SendSGE, q.rules.MaxInline = a.Create.Type, int(r.Send.Shape.SGE), int(r.Send.Shape.Data)
	b, ok := d.ca.at(r.Send.Offset, r.Send.Size)
	if !ok || r.Index >= rings.MaxUserQPs {
		return badAnswer(verb, "a send queue outside the shared memory, or index %d", r.Index)
	}
	if q.send, ok = rings.OpenSend(b, r.Send.Shape, names{}); !ok {
		return badAnswer(verb, "a send queue of the shape %+v in %d bytes", r.Send.Shape, r.Send.Size)
	}
	if r.RecvOffset != 0 {
		if q.recv, err = openRecv(verb, d.ca, r.RecvOffset, r.Recv); err != nil {
			return err
		}
	}
	q.sendCQ, _ = ci.UserHandle[*cq](a.Create.SendCQ)
	q.recvCQ, _ = ci.UserHandle[*cq](a.Create.RecvCQ)
	q.sendCQ.add(q.num, a.Create.Context)
	q.recvCQ.add(q.num, a.Create.Context)
	d.ca.Hold()
	a.QP = ci.UserQP{Handle: q, PostSend: q.postSend, PostRecv: q.postRecv, BindMW: q.bindMW}
	return nil
}

// names implements rings.Names for objects that check has accepted.
type names struct{}

func (names) Vector(o ci.AV) uint32 {
	if v, ok := ci.UserHandle[*av](o); ok {
		return v.number
	}
	return 0
}

func (names) Window(o ci.MW) ci.Key {
	if w, ok := ci.UserHandle[*mw](o); ok {
		return w.current()
	}
	return 0
}

func (names) Region(o ci.MR) ci.Key {
	if o == nil {
		return 0
	}
	return o.Region().LKey
}

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
	if err == nil {
		q.send.Reset()
		q.resets++
		if q.recv != nil {
			q.recv.Reset()
		}
	}
}

// isReset reports whether a Modify moves the QP to Reset.
func isReset(a *ci.UserModifyQP) bool {
	return a.Set&ci.QPFieldState != 0 && a.Attr.State == ci.QPReset
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

// lock makes posts wait until unlock.
func (q *qp) lock()   { q.sendMu.Lock(); q.recvMu.Lock() }
func (q *qp) unlock() { q.recvMu.Unlock(); q.sendMu.Unlock() }

func postDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok {
		return
	}
	q.lock()
	hasEnded := q.life.Finish(err)
	q.unlock()
	if hasEnded {
		q.leave()
	}
}

// leave releases what the QP holds.
func (q *qp) leave() {
	q.sendCQ.remove(q.num)
	if q.recvCQ != q.sendCQ {
		q.recvCQ.remove(q.num)
	}
	q.pd.ca.Drop()
}

func (q *qp) postSend(wrs []ci.SendWR) (int, error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.life.IsOver() {
		return 0, sendErrors.Destroyed
	}
	if q.send.State() < ci.QPRTS {
		return 0, sendErrors.State
	}
	if q.noSend && len(wrs) > 0 {
		return 0, sendErrors.Full
	}
	legal := len(wrs)
	var bad *ci.Error
	for i := range wrs {
		if bad = q.check(&wrs[i]); bad != nil {
			legal = i
			break
		}
	}
	n := q.send.Post(wrs[:legal])
	if n > 0 {
		q.pd.ca.notify(q.index)
	}
	if n < legal {
		return n, sendErrors.Full
	}
	if bad != nil {
		return n, bad
	}
	return n, nil
}

// check validates a request. It returns nil or the error of the post. The engine applies the same rules again.
func (q *qp) check(w *ci.SendWR) *ci.Error {
	r := wrrules.Request{Op: w.Op, Flags: w.Flags, SGEs: len(w.SGL), IsInline: w.Inline != nil, Inline: len(w.Inline)}
	switch {
	case w.Op == ci.OpSend && q.rules.Type == ci.UD:
		v, ok := ci.UserHandle[*av](w.To.AV)
		r.HasAV, r.QPN = ok && v.pd == q.pd && !v.destroyed.Load(), w.To.QPN
	case w.Op == ci.OpFlush && w.Ext != nil:
		r.HasObjects = w.Ext.Flush.IsValid()
	case w.Op == ci.OpBindMW && w.Ext != nil:
		r.HasObjects = q.canBindByPost(&w.Ext.Bind)
	}
	return sendErrors.Of(q.rules.Check(&r))
}

func (q *qp) postRecv(wrs []ci.RecvWR) (int, error) {
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	switch {
	case q.life.IsOver():
		return 0, recvErrors.Destroyed
	case q.recv == nil:
		return 0, recvErrors.Of(wrrules.WRType)
	case q.send.State() == ci.QPReset:
		return 0, recvErrors.State
	case q.noRecv && len(wrs) > 0:
		return 0, recvErrors.Full
	}
	n, err := postRecv(q.recv, wrs, q.recvSGE, recvErrors)
	if n > 0 && q.send.State() == ci.QPError {
		q.pd.ca.notify(q.index) // to be flushed
	}
	return n, err
}
