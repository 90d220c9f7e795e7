package userlib

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/wrrules"
	"ciddk/templates/rchca/userqueues"
)

// sendErrors are created in advance, because the data path must not allocate, even for an error.
var sendErrors = wrrules.NewErrors("QP.PostSend", ci.InvalidQPHandle)

// qp is a queue pair.
type qp struct {
	ca         *ca
	number     ci.QPN
	depth      int // of the send queue
	rules      wrrules.Rules
	send, recv *cq

	mu        sync.Mutex // posts, and verbs that empty the queue
	ring      *userqueues.Send
	posted    uint32
	state     ci.QPState // as set last
	destroyed bool
}

// preCreateQP runs before the QP is created. The CQs of a.Create are those of the user access layer; ci.UserHandle[*cq]
// returns the library's state of one.
func preCreateQP(_ *ci.UserCreateQP, ub *ci.UserBuffer) error { return request(ub) }

// postCreateQP runs after the create, also after one that failed.
//
// The function PostSend replaces the verb. PostRecv is nil: receives are messages, so that one that was posted is with
// the hardware before the process can invite its peer to send. [SAS-2.4-12]
func postCreateQP(a *ci.UserCreateQP, ub *ci.UserBuffer, err error) error {
	r, ok, err := answer("PD.CreateQP", ub, err)
	p, is := a.PD.(*pd)
	if !ok || !is {
		return err
	}
	q := &qp{ca: p.ca, number: ci.QPN(r.Number), rules: wrrules.Rules{Type: a.Create.Type}}
	a.QP = ci.UserQP{Handle: q}
	a.QP.BindMW = bindMW // mw.go
	if r.Offset != 0 {
		shape := userqueues.Shape{Slots: int(r.Slots), SGEs: int(r.SGEs), Inline: int(r.Inline)}
		q.depth, q.rules.SendSGE, q.rules.MaxInline = shape.Slots, shape.SGEs, shape.Inline
		q.rules.MaxReadSGEs = shape.SGEs
		if q.ring, ok = userqueues.OpenSend(p.ca.at(r.Offset), shape); !ok {
			return badQueue("PD.CreateQP")
		}
		a.QP.PostSend = q.postSend
	}
	q.send, _ = ci.UserHandle[*cq](a.Create.SendCQ)
	q.recv, _ = ci.UserHandle[*cq](a.Create.RecvCQ)
	q.send.add(q.number, a.Create.Context)
	q.recv.add(q.number, a.Create.Context)
	return nil
}

// postSend is QP.PostSend. It makes a system call only if the driver sleeps, and does not allocate.
func (q *qp) postSend(wrs []ci.SendWR) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.destroyed:
		return 0, sendErrors.Destroyed
	case len(wrs) > 0 && q.state < ci.QPRTS:
		return 0, sendErrors.State
	}
	room := q.depth - int(q.posted-q.ring.Completed.Load())
	for n < len(wrs) {
		wr := &wrs[n]
		if bad := q.rules.Check(&wrrules.Request{Op: wr.Op, Flags: wr.Flags, SGEs: len(wr.SGL),
			Inline: len(wr.Inline), IsInline: wr.Inline != nil}); bad != wrrules.OK {
			err = sendErrors.Of(bad)
			break
		}
		if n >= room {
			err = sendErrors.Full
			break
		}
		q.ring.Put(q.posted+uint32(n), wr)
		n++
	}
	if n > 0 {
		q.posted += uint32(n)
		q.ring.Posted.Store(q.posted)
		q.ca.posted()
	}
	return n, err
}

// preModifyQP holds posts up while the QP is modified. A transition to Reset empties the queue.
func preModifyQP(a *ci.UserModifyQP, _ *ci.UserBuffer) error {
	if q, ok := a.QP.(*qp); ok && a.Set&ci.QPFieldState != 0 {
		q.mu.Lock()
	}
	return nil
}

func postModifyQP(a *ci.UserModifyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok || a.Set&ci.QPFieldState == 0 {
		return
	}
	defer q.mu.Unlock()
	if err != nil {
		return
	}
	if q.state = a.Attr.State; q.state == ci.QPReset {
		q.posted = 0
	}
}

// preDestroyQP holds posts up until the QP is destroyed, or remains.
func preDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer) error {
	if q, ok := a.QP.(*qp); ok {
		q.mu.Lock()
	}
	return nil
}

// postDestroyQP ends the use of the queue. If err is not nil, the QP still exists.
func postDestroyQP(a *ci.UserDestroyQP, _ *ci.UserBuffer, err error) {
	q, ok := a.QP.(*qp)
	if !ok {
		return
	}
	q.destroyed = q.destroyed || err == nil
	q.mu.Unlock()
	if err == nil {
		q.send.remove(q.number)
		if q.recv != q.send {
			q.recv.remove(q.number)
		}
	}
}
