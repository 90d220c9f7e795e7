package cisuite

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// postStateCases are the cases of posts in each state of a QP. (IBTA 10.3.1; docs/sas, What a state allows.)
var postStateCases = &validate.Area{}

var ciPostState01 = postStateCases.Must("CI-PostState-01", "IBTA 10.3.1", "ci_post_send (55); D-42",
	"PostSend in Reset, Init and RTR fails with InvalidQPState. Nothing is posted, and nothing is sent later.")

var ciPostState02 = postStateCases.Must("CI-PostState-02", "IBTA 10.3.1", "ci_post_recv (56); D-42",
	"PostRecv in Reset fails with InvalidQPState.")

var ciPostState03 = postStateCases.Must("CI-PostState-03", "IBTA 10.3.1", "ci_post_recv (56); D-41",
	"The first messages use the receives posted in Init and RTR, in order.")

var ciPostState04 = postStateCases.Must("CI-PostState-04", "IBTA 10.3.1.6",
	"ci_post_send (55), ci_post_recv (56); D-40",
	"PostSend and PostRecv in Error accept requests. Each completes once as flushed, signaled or not, in order.")

var ciPostState05 = postStateCases.Must("CI-PostState-05", "IBTA 10.3.1.5", "ci_post_send (55); D-40",
	"PostSend in SQError accepts sends, which are flushed. The receive queue still works.")

var ciPostState06 = postStateCases.Must("CI-PostState-06", "IBTA 10.3.1.4", "ci_post_send (55)",
	"PostSend in SQD accepts sends. They wait while the QP is drained and are executed after it is back in RTS.")

// postPattern is a case of posts in a state, which exists for each service.
type postPattern struct {
	id, title string
	rules     []*req.Requirement
	run       func(*validate.T, ci.QPType)
}

var postPatterns = []postPattern{
	{"send-early", "PostSend before RTS", []*req.Requirement{ciPostState01}, stateSendEarly},
	{"recv-early", "PostRecv from Reset to RTR", []*req.Requirement{ciPostState03, ciPostState02}, stateRecvEarly},
	{"recv-reset", "PostRecv in Reset", []*req.Requirement{ciPostState02}, stateRecvReset},
	{"resetting", "post while the QP is moved to Reset", []*req.Requirement{ciPostState01, ciPostState02}, stateResetting},
	{"error", "post in Error", []*req.Requirement{ciPostState04}, stateError},
	{"sqd", "post in SQD", []*req.Requirement{ciPostState06}, stateSQD},
	{"sqerror", "post in SQError", []*req.Requirement{ciPostState05}, stateSQError},
}

// postRows returns each pattern for each service. An RC QP has no state SQError.
func postRows() []perService[postPattern] {
	return slices.DeleteFunc(eachService(postPatterns),
		func(p perService[postPattern]) bool { return p.typ == ci.RC && p.of.id == "sqerror" })
}

var _ = validate.Matrix(postStateCases, postRows(),
	func(p perService[postPattern]) (validate.Case, []*req.Requirement) {
		return validate.Case{
			ID:      "post.state." + p.name + "." + p.of.id,
			Title:   p.of.title,
			Feature: p.feature,
			Needs:   validate.Needs{Caps: p.caps},
			Run:     func(t *validate.T) { p.of.run(t, p.typ) },
		}, p.of.rules
	})

func stateSendEarly(t *validate.T, typ ci.QPType) {
	p := kit.NewPairInReset(t, kit.Type(typ))
	a, b := p.A, p.B
	p.Address()
	b.Init()
	b.RTR(a.QP)
	b.Recv(b.RecvWRs(2, 100)...)
	for _, step := range []func(){func() {}, func() { a.Init() }, func() { a.RTR(b.QP) }} {
		step()
		st := a.State()
		for _, op := range kit.Variants(t, "opcode", []ci.SendOp{ci.OpSend, ci.OpNop}) {
			n, err := a.PostSend([]ci.SendWR{{ID: 1, Op: op, Flags: ci.SendSignaled, To: a.Dest},
				{ID: 2, Op: op, To: a.Dest}})
			kit.WantTaken(t, fmt.Sprintf("PostSend of operation %d in %s", op, st), n, err, 0, ci.InvalidQPState)
		}
	}
	a.RTS()
	a.Send(a.SendWR(3, 0, 5))
	a.CQ.WaitOK(3)
	wc := b.RecvCQ.WaitOK(1)[0]
	pad := uint32(0)
	if typ == ci.UD {
		pad = grhLen
	}
	kit.Equal(t, "Length of the first message", wc.Length, pad+5)
	a.CQ.Empty()
	b.RecvCQ.Empty()
}

func stateRecvEarly(t *validate.T, typ ci.QPType) {
	p := kit.NewPairInReset(t, kit.Type(typ))
	a, b := p.A, p.B
	b.Init()
	n, err := b.PostRecv(b.RecvWRs(2, 100))
	kit.WantTaken(t, "PostRecv in Init", n, err, 2)
	b.RecvCQ.Empty()
	a.Init()
	b.RTR(a.QP)
	n, err = b.PostRecv([]ci.RecvWR{b.RecvWR(3, 200, 100)})
	kit.WantTaken(t, "PostRecv in RTR", n, err, 1)
	a.RTR(b.QP)
	a.RTS()
	p.Address()
	for id := uint64(1); id <= 3; id++ {
		a.Send(a.SendWR(id, 0, 8))
		a.CQ.WaitOK(id)
		b.RecvCQ.WaitOK(id)
	}
}

func stateRecvReset(t *validate.T, typ ci.QPType) {
	p := kit.NewPairInReset(t, kit.Type(typ))
	n, err := p.B.PostRecv(p.B.RecvWRs(2, 100))
	kit.WantTaken(t, "PostRecv in Reset", n, err, 0, ci.InvalidQPState)
	p.Connect()
	p.B.Recv(p.B.RecvWR(9, 0, 100))
	p.B.To(ci.QPError)
	p.B.RecvCQ.WaitFlushed(9)
	p.B.WantDrained()
	p.B.To(ci.QPReset) // and after requests were executed
	n, err = p.B.PostRecv(p.B.RecvWRs(1, 100))
	kit.WantTaken(t, "PostRecv in Reset, after Error", n, err, 0, ci.InvalidQPState)
}

// stateResetting posts to both queues without a pause while the QP is moved to Reset. Each post is either before the
// change of state, which discards its requests, or after it and fails. The lists are much longer than the queues, so
// that posts are under way most of the time. In Error, requests that have not been discarded would complete.
func stateResetting(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ), kit.Depth(32))
	sends, recvs := p.A.SendWRs(512), p.A.RecvWRs(1, 64)
	for i := range sends {
		sends[i].Flags = 0
	}
	recvs = slices.Repeat(recvs, 512)
	for round := range 8 {
		var began atomic.Int32
		errs := make(chan error, 2)
		until := func(post func() (int, error)) {
			t.Go(func() {
				for i := 0; ; i++ {
					_, err := post()
					if err != nil && ci.StatusOf(err) != ci.InsufficientResources {
						errs <- err
						return
					}
					if i == round {
						began.Add(1)
					}
					if t.Context().Err() != nil {
						errs <- t.Context().Err()
						return
					}
				}
			})
		}
		until(func() (int, error) { return p.A.PostSend(sends) })
		until(func() (int, error) { return p.A.PostRecv(recvs) })
		for began.Load() < 2 && t.Context().Err() == nil {
			runtime.Gosched()
		}
		p.A.To(ci.QPReset)
		for range 2 {
			kit.Want(t, <-errs, "posts while the QP is moved to Reset", ci.InvalidQPState)
		}
		p.A.WantState(ci.QPReset)
		p.A.Init()
		p.A.To(ci.QPError)
		p.A.Send(p.A.SendWR(99, 0, 1))
		p.A.Recv(p.A.RecvWR(98, 0, 64))
		p.A.CQ.WaitFlushed(99)
		p.A.RecvCQ.WaitFlushed(98)
		p.A.WantDrained()
		p.A.To(ci.QPReset)
		if typ == ci.UD {
			p.A.Init().RTR(nil).RTS()
		} else {
			p.B.To(ci.QPReset)
			kit.Connect(p.A.QP, p.B.QP)
		}
	}
}

func stateError(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	p.A.To(ci.QPError)
	wrs := p.A.SendWRs(4)
	wrs[1].Flags, wrs[2].Flags = 0, 0
	n, err := p.A.PostSend(wrs)
	kit.WantTaken(t, "PostSend in Error", n, err, 4)
	n, err = p.A.PostRecv(p.A.RecvWRs(3, 100))
	kit.WantTaken(t, "PostRecv in Error", n, err, 3)
	p.A.CQ.WaitFlushed(1, 2, 3, 4)
	p.A.RecvCQ.WaitFlushed(1, 2, 3)
	p.A.WantDrained()
	p.A.WantState(ci.QPError)
	p.B.RecvCQ.Empty()
}

// sqError moves A to SQError with a send from unregistered memory and expects the request after it to be flushed.
func sqError(p *kit.Pair) {
	bad := p.A.SendWR(1, 0, 8)
	bad.SGL[0].LKey ^= 0x00999900
	p.A.Send(bad, p.A.SendWR(2, 0, 8))
	p.A.CQ.WaitStatus(1, ci.WCLocalProtErr)
	p.A.CQ.WaitFlushed(2)
	p.A.Becomes(ci.QPSQError)
}

func stateSQError(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	sqError(p)
	n, err := p.A.PostSend(p.A.SendWRs(3))
	kit.WantTaken(t, "PostSend in SQError", n, err, 3)
	p.A.CQ.WaitFlushed(1, 2, 3)
	p.A.WantState(ci.QPSQError)
	p.B.Exchange(p.A, 30) // the receive queue still works
	kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQError to RTS")
	p.A.Exchange(p.B, 31)
}

func stateSQD(t *validate.T, typ ci.QPType) {
	p := kit.NewPair(t, kit.Type(typ))
	p.A.To(ci.QPSQD)
	p.A.Becomes(ci.QPSQD)
	n, err := p.A.PostSend(p.A.SendWRs(2))
	kit.WantTaken(t, "PostSend in SQD", n, err, 2)
	p.B.Exchange(p.A, 30) // the QP still receives
	p.A.CQ.Empty()
	p.B.Recv(p.B.RecvWRs(2, 100)...)
	p.B.RecvCQ.Empty()
	kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	p.A.CQ.WaitOK(1, 2)
	p.B.RecvCQ.WaitOK(1, 2)
}
