package usersuite

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/kproxy"
	"ciddk/kproxy/schema"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// The event queues of a process. (SAS 2.4.)
var events = area()

var _ = events.Case(validate.Case{
	ID: "user.event.contents",
	Title: "events of each object: token, kind, type, port and vendor's data, in the queue that the process chose; " +
		"the destroy counts them",
	Run: eventContents,
}, req.SAS2_4_11)

func eventContents(t *validate.T) {
	s := newStage(t)
	x := s.speaker()
	queueA, a := x.started()
	queueB, b := x.started()
	w := x.whole(0, queueA)
	const tokenCQ, tokenQP, tokenSRQ = 0x1122334455667788, 0xfedcba9876543210, 3
	cq := x.made("PD.CreateCQ", schema.CmdCreateCQ, &schema.CreateCQ{PD: w.pd, Size: 4, Token: tokenCQ,
		Completions: queueA, Async: queueB})
	create := s.probe.lastCQ()
	caps := schema.QPCaps{SendDepth: 1, RecvDepth: 1, SendSGE: 1, RecvSGE: 1}
	qp := x.made("PD.CreateQP", schema.CmdCreateQP, &schema.CreateQP{PD: w.pd, SendCQ: cq, RecvCQ: cq, Async: queueB,
		Token: tokenQP, Caps: caps, Type: ci.RC})
	onQP, _ := s.probe.lastOnEvent()
	list := []struct {
		what       string
		raise      func(ci.Event)
		token      uint64
		h          schema.Handle
		n          uint64
		completion bool
	}{
		{"completion of a CQ", func(ci.Event) { create.OnCompletion(create.Context) }, tokenCQ, cq, 3, true},
		{"event of a CQ", create.OnEvent, tokenCQ, cq, 2, false},
		{"event of a QP", onQP, tokenQP, qp, 4, false},
	}
	if w.of(schema.KindSRQ) != 0 {
		srq := x.made("PD.CreateSRQ", schema.CmdCreateSRQ, &schema.CreateSRQ{PD: w.pd, Async: queueB, Token: tokenSRQ,
			Attr: schema.SRQAttr{MaxWR: 1, MaxSGE: 1}})
		_, onSRQ := s.probe.lastOnEvent()
		list = append(list, list[len(list)-1])
		last := &list[len(list)-1]
		last.what, last.raise = "event of an SRQ", onSRQ
		last.token, last.h, last.n = tokenSRQ, srq, 1
	}
	var wantA, wantB []schema.Event
	for i, v := range list {
		kit.True(t, v.raise != nil, v.what, "a callback at the driver", "none")
		for k := range v.n {
			e := ci.Event{Type: ci.EventCQError, Port: uint8(i + 1), Vendor: uint64(i)<<40 | k}
			v.raise(e)
			if v.completion {
				wantA = append(wantA, schema.Event{Token: v.token, Kind: schema.EventCompletion})
				continue
			}
			wantB = append(wantB, schema.Event{Token: v.token, Kind: schema.EventAsync, Type: uint32(e.Type),
				Port: uint32(e.Port), Vendor: e.Vendor})
		}
	}
	for _, v := range []struct {
		what string
		l    *eventList
		want []schema.Event
	}{{"first", a, wantA}, {"second", b, wantB}} {
		s.await("events in the "+v.what+" queue", fmt.Sprintf("%+v", v.want), func() string {
			got := v.l.all()
			if len(got) < len(v.want) {
				return fmt.Sprintf("%+v", got)
			}
			return ""
		})
	}
	same := func(what string, got, want []schema.Event) { // events of different objects may overtake each other
		for _, l := range [][]schema.Event{got, want} {
			slices.SortStableFunc(l, func(a, b schema.Event) int {
				switch {
				case a.Token < b.Token:
					return -1
				case a.Token > b.Token:
					return 1
				}
				return 0
			})
		}
		kit.Equal(t, "events in the "+what+" queue", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
	same("first", a.all(), wantA)
	same("second", b.all(), wantB)

	t.Step("objects without queues")
	bare := x.made("PD.CreateCQ", schema.CmdCreateCQ, &schema.CreateCQ{PD: w.pd, Size: 4, Token: 9})
	for _, f := range []func(ci.Event){s.probe.lastCQ().OnEvent} {
		if f != nil {
			f(ci.Event{Type: ci.EventCQError})
		}
	}
	if f := s.probe.lastCQ().OnCompletion; f != nil {
		f(s.probe.lastCQ().Context)
	}
	kit.Equal(t, "events of a CQ without queues", x.counts(bare), [2]uint64{})

	t.Step("the number of events at the destroy")
	for i, v := range slices.Backward(list) {
		if i == 0 {
			break // the completions and the events of a CQ are counted at once
		}
		want := [2]uint64{0, v.n}
		if v.h == cq {
			want[0] = list[0].n
		}
		kit.Equal(t, "completion events and other events of the destroyed object: "+v.what, x.counts(v.h), want)
	}
	kit.WantExactly(t, x.destroy(queueA), "the destroy of an event queue that objects use", ci.ResourceBusy)
	x.destroyed(queueB)
	s.await("the end of an event queue that was destroyed", "the end", func() string {
		if !b.isEnded() {
			return "none"
		}
		return ""
	})
	kit.True(t, !a.isEnded(), "an event queue that was not destroyed", "no end", "its end")
}

// counts destroys an object and returns the numbers of its events.
func (x *speaker) counts(h schema.Handle) [2]uint64 {
	var r schema.DestroyReply
	kit.OK(x.s.t, x.do(schema.CmdDestroy, &schema.Object{Handle: h}, &r), fmt.Sprintf("the destroy of a %v", h.Kind()))
	return [2]uint64{r.Completions, r.Async}
}

var _ = events.Case(validate.Case{
	ID: "user.event.overflow",
	Title: "a process that does not read its events: those beyond the limit are lost and counted, in order, and the " +
		"others arrive",
	Run: eventOverflow,
}, req.SAS2_4_11)

func eventOverflow(t *validate.T) {
	const waiting, raised = 6, 30_000
	s := newStage(t)
	s.restart(func(cfg *kproxy.Config) { cfg.Quota.Events = waiting })
	x, other := s.speaker(), s.speaker()
	queue, l := x.queue()
	w := x.whole(0, queue)
	const tokenA, tokenB, tokenC = 101, 102, 103
	cq := func(token uint64) (schema.Handle, func()) {
		h := x.made("PD.CreateCQ", schema.CmdCreateCQ, &schema.CreateCQ{PD: w.pd, Size: 4, Token: token,
			Completions: queue, Async: queue})
		c := s.probe.lastCQ()
		return h, func() { c.OnCompletion(c.Context) }
	}
	a, raiseA := cq(tokenA)
	b, raiseB := cq(tokenB)
	for range raised / 2 {
		raiseA()
		raiseB()
	}
	t.Step("a destroy while events wait")
	counts := x.counts(a)
	kit.OK(t, other.do(schema.CmdListHCAs, &schema.None{}, &schema.ListHCAsReply{}), "ListHCAs of another process")
	raiseB() // lost, too
	l.start()
	overflow := schema.Event{Kind: schema.EventOverflow}
	s.await("the event that reports lost events", "one", func() string {
		if l.count(overflow) == 0 {
			return "none"
		}
		return ""
	})
	list := l.all()
	last := list[len(list)-1]
	kit.Equal(t, "kind of the last event", last.Kind, schema.EventOverflow)
	kit.Equal(t, "token of an overflow", last.Token, 0)
	list = list[:len(list)-1]
	numA, numB := l.count(schema.Event{Token: tokenA}), l.count(schema.Event{Token: tokenB})
	kit.Equal(t, "events of both CQs, and all events", numA+numB, len(list))
	kit.Equal(t, "events that the destroy of a CQ reports", counts, [2]uint64{uint64(numA), 0})
	// The socket takes some events. Of the others, 6 wait: 3 of each CQ. Those of the destroyed CQ are discarded.
	kit.Equal(t, "events of the CQ that remains beyond those of the other", numB-numA, waiting/2)
	for i, e := range list[:2*numA] {
		kit.Equal(t, fmt.Sprintf("token of event %d", i), e.Token, []uint64{tokenA, tokenB}[i%2])
	}
	kit.Equal(t, "events that were lost", last.Vendor,
		uint64(raised-len(list)-waiting/2+1))

	t.Step("events after an overflow")
	for n := range 5 {
		raiseB()
		s.await("events after an overflow", fmt.Sprint(n+1), func() string {
			if got := l.count(schema.Event{Token: tokenB}) - numB; got != n+1 {
				return fmt.Sprint(got)
			}
			return ""
		})
	}
	c, raiseC := cq(tokenC)
	raiseC()
	kit.Equal(t, "events that the destroy of the CQ reports", x.counts(b), [2]uint64{uint64(numB + 5), 0})
	kit.Equal(t, "events that the destroy of a new CQ reports", x.counts(c), [2]uint64{1, 0})
	kit.Equal(t, "overflows", l.count(overflow), 1)

	t.Step("the end of a process that does not read its events")
	queueO, _ := other.queue()
	wo := other.whole(0, queueO)
	other.made("PD.CreateCQ", schema.CmdCreateCQ, &schema.CreateCQ{PD: wo.pd, Size: 4, Completions: queueO})
	create := s.probe.lastCQ()
	for range raised {
		create.OnCompletion(create.Context)
	}
	other.c.Close()
	x.c.Close()
	s.gone("the daemon after the end of processes with events")
}
