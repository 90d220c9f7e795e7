package cisuite

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// callbacksCases are the cases of asynchronous events and of the rules for verbs in callbacks. (SAS 2.1, callbacks;
// IBTA 11.6.) Cases that may take a port down spoil the target, since no verb brings the port up again.
var callbacksCases = &validate.Area{Feature: validate.FeatureEvents}

// pairWith returns another connection beside p. The QP of A has this context and callback.
func pairWith(p *kit.Pair, arg any, onEvent func(ci.Event)) *kit.Pair {
	p.A.Config.Context, p.A.Config.OnEvent = arg, onEvent
	return p.More(false)
}

// drain makes a QP in RTS raise the event SQ drained.
func drain(t *validate.T, q *kit.QP) {
	kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}),
		"QP.Modify to SQD, with event")
}

// expect waits for a value that a callback sends.
func expect[V any](t *validate.T, c <-chan V, where string) V {
	timer := time.NewTimer(t.Remaining())
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fail(validate.Failure{Where: where, Expected: "a callback", Got: "no callback by the deadline"})
		panic("not reached: Fail ends the case")
	}
}

// soon waits for a short time and reports whether a callback has sent a value.
func soon[V any](c <-chan V) (v V, ok bool) {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	select {
	case v = <-c:
		return v, true
	case <-timer.C:
		return v, false
	}
}

var _ = callbacksCases.Of(validate.FeatureTeardown).Add("callbacks.quiet.qp",
	"destroy a QP with a pending event", func(t *validate.T) {
		l := kit.NewLate(t)
		p := kit.RC(t)
		for range 20 {
			w := l.Watch()
			q := pairWith(p, nil, func(ci.Event) { w.Callback() })
			drain(t, q.A.QP)
			kit.Destroy(t, q.A.QP.QP, "QP")
			w.Destroyed()
		}
		l.Silent("events of 20 QPs that were destroyed while their send queues drained", quiet)
	}, req.SAS2_1_30)

var _ = callbacksCases.Of(validate.FeatureTeardown).With(validate.Case{Checks: []string{req.SAS2_1_30.ID}}).Add(
	"callbacks.handed-over", "another goroutine destroys the object of a running callback", handedOver,
	req.SAS2_1_28, req.SAS2_1_30)

func handedOver(t *validate.T) {
	p := kit.RC(t)
	other := p.More(false)
	done := make(chan error, 1)
	var q *kit.Pair
	var running atomic.Bool
	release := make(chan struct{})
	defer close(release)
	q = pairWith(p, nil, func(ci.Event) {
		running.Store(true)
		defer running.Store(false)
		t.Go(func() {
			err := q.A.QP.QP.Destroy()
			if running.Load() {
				t.Report(validate.Failure{Rule: "SAS-2.1-30",
					Where:    "QP.Destroy from a goroutine that the QP's callback started",
					Expected: "a return after the callback has returned", Got: "a return before"})
			}
			done <- err
		})
		// Destroy is called while this callback still runs. Destroy must wait, and this callback must not.
		timer := time.NewTimer(5 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-release:
		}
	})
	drain(t, q.A.QP)
	kit.OK(t, expect(t, done, "QP.Destroy from a goroutine that the QP's callback started"),
		"QP.Destroy from another goroutine")
	other.A.Exchange(other.B, 100)
	wantDestroyed(t, q.A.QP)
}

// The case destroys a QP in the callback of another one. A driver may reject that or support it. It must not do half of
// it, and other objects must not be affected.
var _ = callbacksCases.Of(validate.FeatureTeardown).Add("callbacks.destroy-other",
	"a callback that destroys another object", func(t *validate.T) {
		p := kit.RC(t)
		other, victim := p.More(false), p.More(false)
		victim.B.Recv(victim.B.RecvWR(1, 0, 8))
		done := make(chan error, 1)
		q := pairWith(p, nil, func(ci.Event) { done <- victim.A.QP.QP.Destroy() })
		drain(t, q.A.QP)
		err := expect(t, done, "QP.Destroy in the callback of another QP")
		if err == nil {
			wantDestroyed(t, victim.A.QP)
		} else {
			t.Note("QP.Destroy in a callback: %s", kit.Describe(err))
			victim.A.WantState(ci.QPRTS)
			victim.A.Send(victim.A.SendWR(1, 0, 8))
			victim.A.CQ.WaitOK(1)
			victim.B.RecvCQ.WaitOK(1)
		}
		other.A.Exchange(other.B, 100)
		p.A.Exchange(p.B, 100)
		q.A.Becomes(ci.QPSQD)
		q.A.To(ci.QPRTS)
		q.A.Exchange(q.B, 20)
	}, req.SAS2_1_28)

var _ = callbacksCases.Add("callbacks.early", "a callback that uses only its context", func(t *validate.T) {
	p := kit.RC(t)
	// The callback uses only its context, since it may run before the create verb returns.
	type owner struct {
		name  string
		rings chan string
	}
	for i := range 10 {
		o := &owner{fmt.Sprintf("object %d", i), make(chan string, 64)}
		fn := func(arg any) {
			if c, ok := arg.(*owner); ok {
				c.rings <- c.name
				return
			}
			o.rings <- fmt.Sprintf("%v, which is not of the type of the given context", arg)
		}
		cq := p.A.QP.CA.CQWith(p.A.PD, ci.CQCreate{Size: 16, Context: o, OnCompletion: fn})
		q := p.A.QP.CA.QP(p.A.PD, p.A.CQ, cq, kit.With(func(c *kit.Config) {
			c.Context, c.OnEvent = o, func(e ci.Event) { fn(e.Context) }
		}))
		kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
		q.Init()
		q.Recv(p.A.RecvWR(1, 0, 1))
		q.To(ci.QPError)
		kit.Equal(t, "context of a completion callback",
			expect(t, o.rings, "completion callback for a flushed receive on an armed CQ"), o.name)
	}
}, req.SAS2_1_12, req.SAS2_1_09)

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapEventHandlers}).With(validate.Case{Spoils: true}).Add(
	"callbacks.early.handler", "events of the port while handlers are registered", earlyHandler, req.SAS2_1_12)

// earlyHandler registers handlers while the port changes all the time, so that a callback may run before OnEvent has
// returned. No other create verb can be overtaken like that: the other objects cause events only through verbs.
func earlyHandler(t *validate.T) {
	const rounds = 100
	ca := kit.Open(t)
	seen := make(chan struct{}, 1)
	signal := func() {
		select {
		case seen <- struct{}{}:
		default:
		}
	}
	probe, err := ca.OnEvent(func(ci.Event) { signal() }, nil)
	kit.OK(t, err, "CA.OnEvent")
	kit.Own(t, probe, "handler")
	have := ca.Port.Capability
	toggle := func() error {
		have ^= ci.PortCapVendorClass
		return ca.Modify(ca.Port.Num, ci.PortFieldCapability,
			ci.PortModify{CapMask: ci.PortCapVendorClass, Capability: have})
	}
	kit.OK(t, toggle(), "CA.Modify of a capability bit")
	if _, ok := soon(seen); !ok {
		t.Skip("a change of a port capability raises no event")
	}
	kit.Destroy(t, probe, "handler")

	stop, stopped := make(chan struct{}), make(chan struct{})
	t.Go(func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond) // so that the events do not pile up
		defer tick.Stop()
		for {
			for range 8 {
				if err := toggle(); err != nil {
					t.Report(validate.Failure{Where: "CA.Modify of a capability bit", Expected: "success",
						Got: kit.Describe(err)})
					return
				}
				runtime.Gosched()
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			case <-t.Context().Done():
				return
			}
		}
	})
	defer func() { <-stopped }()
	defer close(stop)
	var wrong atomic.Pointer[string]
	for i := range rounds {
		select {
		case <-seen: // from the last handler
		default:
		}
		owner := &struct{ round int }{i}
		h, err := ca.OnEvent(func(e ci.Event) {
			if e.Context != any(owner) {
				text := fmt.Sprintf("%v", e.Context)
				wrong.Store(&text)
			}
			signal()
		}, owner)
		kit.OK(t, err, "CA.OnEvent")
		kit.Own(t, h, "handler")
		expect(t, seen, "event of a port that changes all the time")
		kit.Destroy(t, h, "handler")
		if text := wrong.Load(); text != nil {
			t.Failf("Event.Context of a handler", "the context passed to OnEvent, also before it returns", "%s", *text)
		}
	}
}

// The case raises events while a callback of the same object runs. Each callback waits until another one begins, at
// most for a moment. A driver that runs callbacks at the same time passes only if none of its goroutines runs in any of
// these moments.
var _ = callbacksCases.Add("callbacks.one-at-a-time", "many events of one QP", func(t *validate.T) {
	const events, moment = 12, 10 * time.Millisecond
	p := kit.RC(t)
	var inside atomic.Int32
	overlapped := make(chan struct{})
	overlap := sync.OnceFunc(func() { close(overlapped) })
	seen := make(chan bool, 64)
	q := pairWith(p, nil, func(ci.Event) {
		alone := inside.Add(1) == 1
		if !alone {
			overlap()
		}
		timer := time.NewTimer(moment)
		defer timer.Stop()
		select {
		case <-overlapped:
		case <-timer.C:
		}
		inside.Add(-1)
		seen <- alone
	})
	for range events {
		drain(t, q.A.QP)
		kit.OK(t, q.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	}
	for i := range events {
		where := fmt.Sprintf("event %d of %d of one QP", i+1, events)
		kit.True(t, expect(t, seen, where), where, "a callback while no other callback of the object runs",
			"two callbacks at the same time")
	}
}, callbacksCases.Must("CI-Callback-02", "CI context", "ci, Event",
	"Events of one object are delivered one at a time."), req.SAS2_3_21)

var _ = callbacksCases.Add("events.order", "two consecutive events of one QP", func(t *validate.T) {
	p := kit.NewPairInReset(t)
	a, b := p.A, p.B
	b.QP.Init()
	b.Recv(b.RecvWRs(2, 1)...)
	a.QP.Init()
	b.RTR(a.QP)
	a.RTR(b.QP)
	a.RTS()
	a.Send(a.SendWR(1, 0, 1))
	b.RecvCQ.WaitOK(1) // the first event: communication established
	b.RTS()
	drain(t, b.QP) // the second event
	b.Events.Wait(ci.EventSQDrained)
	b.Events.Wait(ci.EventQPComm)
	var got []string
	for _, e := range b.Events.All() {
		got = append(got, e.Type.String())
	}
	kit.Equal(t, "events of a QP that received in RTR and was drained in RTS", fmt.Sprint(got),
		fmt.Sprint([]string{ci.EventQPComm.String(), ci.EventSQDrained.String()}))
}, req.SAS2_3_21)

// The case generates two more events of a QP while the callback of the first one runs. A driver that delivers waiting
// events in any order, or that has a goroutine for each, passes events.order, whose events are far apart.
var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapSRQ}).Add("events.order.waiting",
	"events of one QP that wait for a callback", func(t *validate.T) {
		p := kit.RC(t)
		b := p.B
		in, err := b.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
		kit.OK(t, err, "PD.CreateSRQ")
		srq := kit.Own(t, in, "SRQ")
		n, err := srq.PostRecv([]ci.RecvWR{b.RecvWR(1, 0, 1)})
		kit.WantTaken(t, "SRQ.PostRecv", n, err, 1)
		entered, release := make(chan ci.EventType, 8), make(chan struct{})
		qa := p.A.QP.CA.QP(p.A.PD, p.A.CQ, p.A.RecvCQ, kit.With(func(c *kit.Config) {
			*c = kit.Options(p.A.QP.CA, b.QP.CA, kit.Type(ci.RC))
		}))
		qb := b.QP.CA.QP(b.PD, b.CQ, b.RecvCQ, kit.WithSRQ(srq), kit.With(func(c *kit.Config) {
			c.OnEvent = func(e ci.Event) { entered <- e.Type; <-release }
		}))
		isOpen := false
		open := func() {
			if !isOpen {
				close(release)
			}
			isOpen = true
		}
		defer open()
		qa.Init()
		qb.Init()
		qb.RTR(qa)
		qa.RTR(qb)
		qa.RTS()
		qa.Send(p.A.SendWR(1, 0, 1))
		b.RecvCQ.WaitOK(1)
		got := []any{expect(t, entered, "event of a QP that received in RTR")}
		qb.RTS()
		drain(t, qb)
		qb.Becomes(ci.QPSQD)            // the send queue has drained, so the second event has been generated
		qb.To(ci.QPError)               // the third one: the QP takes no more receives of its SRQ
		if e, ok := soon(entered); ok { // meanwhile the driver has the time to queue the events, in whatever order
			got = append(got, e)
		}
		open()
		for len(got) < 3 {
			got = append(got, expect(t, entered, fmt.Sprintf("next event of a QP after %v", got)))
		}
		kit.Equal(t, "events of a QP whose second and third event were generated in the callback of the first",
			fmt.Sprintln(got...), fmt.Sprintln(ci.EventQPComm, ci.EventSQDrained, ci.EventLastWQE))
	}, req.SAS2_3_21)

var _ = callbacksCases.Add("events.comm", "receive in RTR", func(t *validate.T) {
	p := kit.NewPairInReset(t)
	a, b := p.A, p.B
	b.QP.Init()
	b.Recv(b.RecvWRs(4, 1)...)
	a.QP.Init()
	b.RTR(a.QP)
	a.RTR(b.QP)
	a.RTS()
	a.Send(a.SendWRs(3)...)
	b.RecvCQ.WaitOK(1, 2, 3)
	e := b.Events.Wait(ci.EventQPComm)
	kit.True(t, e.Context == any(b.Events), "Event.Context", "the context of the QP's creation", "%v", e.Context)
	b.RTS()
	a.Send(a.SendWR(4, 0, 1))
	b.RecvCQ.WaitOK(4)
	drain(t, b.QP) // events are delivered in order, so this one is the last
	b.Events.Wait(ci.EventSQDrained)
	kit.Equal(t, "events communication established", b.Events.Count(ci.EventQPComm), 1)
	a.Events.Only()
}, callbacksCases.Must("CI-EventComm-01", "IBTA 11.6.3.1", "ci_create_qp (22)",
	"The event communication established is raised once when a QP in RTR receives."), req.SAS2_1_10)

var _ = callbacksCases.Add("events.context.qp", "context of a QP event", func(t *validate.T) {
	p := kit.RC(t)
	for _, ctx := range []any{"a string", 42, &struct{ n int }{7}, nil} {
		got := make(chan ci.Event, 8)
		q := pairWith(p, ctx, func(e ci.Event) { got <- e })
		if ctx == nil {
			ctx = any(q.A.Events) // package kit sets its own context
		}
		drain(t, q.A.QP)
		e := expect(t, got, "event SQ drained")
		kit.Equal(t, "Event.Type", e.Type, ci.EventSQDrained)
		kit.True(t, e.Context == ctx, "Event.Context of a QP", fmt.Sprintf("%v", ctx), "%v", e.Context)
	}
}, req.SAS2_1_10)

var _ = callbacksCases.With(validate.Case{Timeout: 3 * time.Second}).Add("callbacks.blocked",
	"one callback blocks while another one is due", func(t *validate.T) {
		p := kit.RC(t)
		entered, release := make(chan struct{}, 8), make(chan struct{})
		defer close(release)
		q := pairWith(p, nil, func(ci.Event) { entered <- struct{}{}; <-release })
		drain(t, q.A.QP)
		expect(t, entered, "event of the first QP")
		got := make(chan ci.Event, 8)
		r := pairWith(p, nil, func(e ci.Event) { got <- e })
		drain(t, r.A.QP)
		expect(t, got, "event of a second QP while the callback of the first blocks")

		bl := newBell(t)
		cq := p.A.QP.CA.CQWith(p.A.PD, ci.CQCreate{Size: 16, OnCompletion: bl.ring})
		s := p.A.QP.CA.QP(p.A.PD, p.A.CQ, cq)
		kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
		s.Init()
		s.Recv(p.A.RecvWR(1, 0, 1))
		s.To(ci.QPError)
		bl.wait("completion callback while an event callback blocks")
	}, callbacksCases.Should("CI-Callback-01", "CI context",
		"ci, Event: callbacks of different objects may overlap",
		"A callback that blocks delays only callbacks of its own object."))

// The case causes events and completions of a QP, a CQ and an SRQ that have no callbacks. Nothing follows.
var _ = callbacksCases.Add("callbacks.none",
	"events of objects that were created without callbacks", func(t *validate.T) {
		p := kit.RC(t)
		ca := p.B.CA
		cq, err := p.B.PD.CreateCQ(ci.CQCreate{Size: 8})
		kit.OK(t, err, "PD.CreateCQ without callbacks")
		kit.Own(t, cq, "CQ")
		create := ci.QPCreate{Type: ci.RC, QPCaps: ci.QPCaps{SendDepth: 4, RecvDepth: 4, SendSGE: 1, RecvSGE: 1},
			SendCQ: cq, RecvCQ: cq}
		var srq ci.SRQ
		if t.Claims().Has(ci.CapSRQ) {
			srq, err = p.B.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 4, MaxSGE: 1}})
			kit.OK(t, err, "PD.CreateSRQ without callbacks")
			kit.Own(t, srq, "SRQ")
			create.SRQ, create.RecvDepth = srq, 0
		}
		in, err := p.B.PD.CreateQP(create)
		kit.OK(t, err, "PD.CreateQP without callbacks")
		q := *p.B.QP
		q.QP = kit.Own(t, in, "QP")
		other := ca.QP(p.B.PD, p.B.CQ, p.B.RecvCQ)
		kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify of a CQ without callbacks")
		kit.Connect(&q, other)
		if srq != nil {
			n, err := srq.PostRecv([]ci.RecvWR{p.B.RecvWR(1, 0, 8), p.B.RecvWR(2, 8, 8)})
			kit.WantTaken(t, "SRQ.PostRecv", n, err, 2)
			kit.OK(t, srq.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 2}), "SRQ.Modify of the limit")
		} else {
			q.Recv(p.B.RecvWR(1, 0, 8))
		}
		other.Send(p.B.SendWR(3, 64, 8)) // a completion and, of an SRQ, the event of its limit
		p.B.CQ.WaitOK(3)
		kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}),
			"QP.Modify from RTS to SQD with an event")
		q.Becomes(ci.QPSQD)
		q.To(ci.QPError) // of an SRQ, the event of the last receive
		var wc [2]ci.WC
		n, err := cq.Poll(wc[:])
		kit.OK(t, err, "CQ.Poll")
		kit.Equal(t, "completions in a CQ without callbacks", n, 1)
		kit.Destroy(t, q.QP, "QP without callbacks")
		if srq != nil {
			kit.Destroy(t, srq, "SRQ without callbacks")
		}
		kit.Destroy(t, cq, "CQ without callbacks")
		p.A.Exchange(p.B, 100)
	}, req.SAS2_1_10)

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapAV}).Add("callbacks.verbs",
	"create and destroy address vectors, post, poll and arm in a callback", func(t *validate.T) {
		p := kit.RC(t)
		av := p.A.QP.CA.AddressOf(p.B.QP.CA)
		result := make(chan error, 8)
		var q *kit.Pair
		ready := make(chan struct{})
		q = pairWith(p, nil, func(ci.Event) {
			<-ready
			result <- func() error {
				for range 3 {
					v, err := q.A.PD.CreateAV(av)
					if err != nil {
						return fmt.Errorf("PD.CreateAV: %w", err)
					}
					if err := v.Destroy(); err != nil {
						return fmt.Errorf("AV.Destroy: %w", err)
					}
				}
				if n, err := q.A.PostRecv([]ci.RecvWR{q.A.RecvWR(1, 0, 1)}); n != 1 || err != nil {
					return fmt.Errorf("QP.PostRecv accepted %d of 1: %w", n, err)
				}
				if n, err := q.A.PostSend([]ci.SendWR{q.A.SendWR(2, 0, 1)}); n != 1 || err != nil {
					return fmt.Errorf("QP.PostSend in SQD accepted %d of 1: %w", n, err)
				}
				if err := q.A.CQ.Notify(ci.NotifyNext); err != nil {
					return fmt.Errorf("CQ.Notify: %w", err)
				}
				if _, err := q.A.CQ.Poll(make([]ci.WC, 1)); err != nil {
					return fmt.Errorf("CQ.Poll: %w", err)
				}
				q.A.TimeWait(time.Nanosecond)
				return nil
			}()
		})
		close(ready)
		drain(t, q.A.QP)
		kit.OK(t, expect(t, result, "event callback that calls verbs"), "verbs inside an event callback")
		q.B.Recv(q.B.RecvWR(3, 0, 1))
		kit.OK(t, q.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
		q.A.CQ.WaitOK(2)
		q.B.Send(q.B.SendWR(4, 0, 1))
		q.A.RecvCQ.WaitOK(1)
	}, callbacksCases.Must("CI-Callback-03", "CI context", "ci, Context",
		"Verbs of the callback and data contexts work inside a callback."))

// limited returns an SRQ of one QP of B, and a function that sends messages until the SRQ raises its limit event.
func limited(t *validate.T, p *kit.Pair, arg any, onEvent func(ci.Event)) (s ci.SRQ, trip func(), q *kit.QP) {
	b := p.B
	in, err := b.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}, Context: arg, OnEvent: onEvent})
	kit.OK(t, err, "PD.CreateSRQ")
	s = kit.Own(t, in, "SRQ")
	c := kit.Options(p.A.QP.CA, b.QP.CA, kit.Type(ci.RC))
	qa := p.A.QP.CA.QP(p.A.PD, p.A.CQ, p.A.RecvCQ, kit.With(func(k *kit.Config) { *k = c }))
	qb := b.QP.CA.QP(b.PD, b.CQ, b.RecvCQ, kit.WithSRQ(s))
	kit.Connect(qa, qb)
	n, err := s.PostRecv([]ci.RecvWR{b.RecvWR(1, 0, 1), b.RecvWR(2, 1, 1), b.RecvWR(3, 2, 1)})
	kit.WantTaken(t, "SRQ.PostRecv", n, err, 3)
	kit.OK(t, s.Modify(ci.SRQFieldLimit, ci.SRQAttr{Limit: 2}), "SRQ.Modify of the limit")
	return s, func() {
		qa.Send(p.A.SendWR(1, 0, 1), p.A.SendWR(2, 0, 1))
		p.A.CQ.WaitOK(1, 2)
		b.RecvCQ.WaitOK(1, 2)
	}, qb
}

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapSRQ}).Add("events.context.srq", "context of an SRQ event",
	contextSRQ, req.SAS2_1_10)

func contextSRQ(t *validate.T) {
	p := kit.RC(t)
	got := make(chan ci.Event, 8)
	ctx := &struct{ n int }{3}
	_, trip, _ := limited(t, p, ctx, func(e ci.Event) { got <- e })
	trip()
	e := expect(t, got, "event SRQ limit reached")
	kit.Equal(t, "Event.Type", e.Type, ci.EventSRQLimit)
	kit.True(t, e.Context == any(ctx), "Event.Context of an SRQ", "the context of the SRQ's creation", "%v", e.Context)
	_, again := soon(got)
	kit.True(t, !again, "events SRQ limit reached after one arming", "one", "two")
}

var _ = callbacksCases.Of(validate.FeatureTeardown).Needing(validate.Needs{Caps: ci.CapSRQ}).Add("callbacks.quiet.srq",
	"destroy an SRQ with a pending event", func(t *validate.T) {
		l := kit.NewLate(t)
		p := kit.RC(t)
		for range 10 {
			w := l.Watch()
			s, trip, q := limited(t, p, nil, func(ci.Event) { w.Callback() })
			trip()
			kit.Destroy(t, q.QP, "QP")
			kit.Destroy(t, s, "SRQ")
			w.Destroyed()
		}
		l.Silent("events of 10 SRQs that were destroyed after their limit was reached", quiet)
	}, req.SAS2_1_30)

// provoke makes the CA raise one event of its port: a change of a capability bit or, if that raises none, the shutdown
// of the port. seen receives the events of the case's own callback. If neither is possible, the case is skipped.
func provoke(t *validate.T, ca *kit.CA, seen <-chan ci.Event) ci.Event {
	bit := ci.PortCapVendorClass
	m := ci.PortModify{CapMask: bit, Capability: ^ca.Port.Capability & bit}
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability, m), "CA.Modify of a capability bit")
	if e, ok := soon(seen); ok {
		return e
	}
	if !t.Claims().Has(ci.CapShutdownPort) {
		t.Skip("a change of a port capability raises no event, and ShutdownPort is not claimed, so the case cannot " +
			"provoke an event of the CA")
	}
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
	return expect(t, seen, "event of a port that was shut down")
}

// openWith opens the HCA with a callback of the case.
func openWith(t *validate.T, arg any, onEvent func(ci.Event)) *kit.CA {
	first := kit.Open(t)
	port := *first.Port
	kit.OK(t, first.Destroy(), "CA.Destroy")
	in, err := first.HCA.OpenCA(first.HCA.Info().GUID, onEvent, arg)
	kit.OK(t, err, "HCA.OpenCA")
	ca := &kit.CA{CA: in, T: t, HCA: first.HCA, Attr: first.Attr, Port: &port}
	t.Cleanup(func() { _ = in.Destroy() }) // for a case that ends early; otherwise it is closed
	return ca
}

var _ = callbacksCases.With(validate.Case{Spoils: true}).Add("events.context.ca",
	"an event of a port is delivered to the callback of the open", contextCA, req.SAS2_3_04, req.SAS2_1_10)

func contextCA(t *validate.T) {
	ctx := &struct{ n int }{5}
	got := make(chan ci.Event, 64)
	ca := openWith(t, ctx, func(e ci.Event) { got <- e })
	e := provoke(t, ca, got)
	kit.True(t, e.Context == any(ctx), "Event.Context of a port event", "the context passed to OpenCA", "%v", e.Context)
	kit.Equal(t, "Event.Port", e.Port, ca.Port.Num)
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

var _ = callbacksCases.Of(validate.FeatureTeardown).With(validate.Case{Spoils: true}).Add("callbacks.quiet.ca",
	"close a CA with a pending event", func(t *validate.T) {
		l := kit.NewLate(t)
		for range 10 {
			w := l.Watch()
			ca := openWith(t, nil, func(ci.Event) { w.Callback() })
			m := ci.PortModify{CapMask: ci.PortCapVendorClass, Capability: ^ca.Port.Capability & ci.PortCapVendorClass}
			kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability, m), "CA.Modify of a capability bit")
			kit.OK(t, ca.Destroy(), "CA.Destroy")
			w.Destroyed()
		}
		if t.Claims().Has(ci.CapShutdownPort) {
			w := l.Watch()
			ca := openWith(t, nil, func(ci.Event) { w.Callback() })
			kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
			kit.OK(t, ca.Destroy(), "CA.Destroy")
			w.Destroyed()
		}
		l.Silent("events of CAs that were closed after their port changed", quiet)
	}, req.SAS2_1_30)

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapEventHandlers}).Add("events.handlers.nil",
	"register a nil handler", func(t *validate.T) {
		h, err := kit.Open(t).OnEvent(nil, nil)
		kit.WantRefused(t, h, err, "CA.OnEvent with a nil function", ci.InvalidParameter)
	}, callbacksCases.Must("CI-EventHandler-03", "CI context",
		"ci_register_event_handler (2), ci_unregister_event_handler (3)", "A nil handler fails with InvalidParameter."))

// listener collects the events of one handler.
type listener struct {
	o   ci.Object
	ctx any
	got chan ci.Event
}

func listeners(t *validate.T, ca *kit.CA, n int) (out []*listener) {
	for i := range n {
		l := &listener{ctx: fmt.Sprintf("handler %d", i+1), got: make(chan ci.Event, 64)}
		o, err := ca.OnEvent(func(e ci.Event) { l.got <- e }, l.ctx)
		kit.OK(t, err, "CA.OnEvent")
		l.o = kit.Own(t, o, "handler")
		out = append(out, l)
	}
	return out
}

// receives expects the event exactly once.
func (l *listener) receives(t *validate.T, want ci.EventType) {
	where := fmt.Sprintf("events of %v", l.ctx)
	e := expect(t, l.got, where)
	kit.Equal(t, where+": Type", e.Type, want)
	kit.True(t, e.Context == l.ctx, where+": Context", fmt.Sprint(l.ctx), "%v", e.Context)
	if e, twice := soon(l.got); twice && e.Type == want {
		t.Fail(validate.Failure{Where: where, Expected: "the event once", Got: "twice"})
	}
}

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapEventHandlers}).With(validate.Case{Spoils: true}).Add(
	"events.handlers.each", "three handlers and one event", handlersEach,
	callbacksCases.Must("CI-EventHandler-01", "CI context",
		"ci_register_event_handler (2), ci_unregister_event_handler (3)",
		"Each registered handler receives each event of the CA and its ports once, with its own context. The "+
			"callback of the open receives it, too."), req.SAS2_1_10)

func handlersEach(t *validate.T) {
	first := make(chan ci.Event, 64)
	ca := openWith(t, "open", func(e ci.Event) { first <- e })
	hs := listeners(t, ca, 3)
	e := provoke(t, ca, first)
	kit.True(t, e.Context == any("open"), "Event.Context in the callback of the open", "the context passed to OpenCA",
		"%v", e.Context)
	for _, h := range hs {
		h.receives(t, e.Type)
		kit.Destroy(t, h.o, "handler")
	}
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapEventHandlers}).With(validate.Case{Spoils: true}).Add(
	"events.handlers.gone", "destroy one of three handlers", handlersDestroyed,
	callbacksCases.Must("CI-EventHandler-02", "CI context",
		"ci_register_event_handler (2), ci_unregister_event_handler (3)",
		"A destroyed handler receives no event, and the others still do."))

func handlersDestroyed(t *validate.T) {
	first := make(chan ci.Event, 64)
	ca := openWith(t, "open", func(e ci.Event) { first <- e })
	hs := listeners(t, ca, 3)
	kit.DestroyTwice(t, hs[1].o, "handler", ci.InvalidHandle)
	e := provoke(t, ca, first)
	hs[0].receives(t, e.Type)
	hs[2].receives(t, e.Type)
	_, late := soon(hs[1].got)
	kit.True(t, !late, "events of a destroyed handler", "none", "one")
	kit.Destroy(t, hs[0].o, "handler")
	kit.Destroy(t, hs[2].o, "handler")
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

var _ = callbacksCases.Of(validate.FeatureTeardown).Needing(validate.Needs{Caps: ci.CapEventHandlers}).With(
	validate.Case{Spoils: true}).Add("callbacks.quiet.handler", "destroy a handler with a pending event",
	quietHandler, req.SAS2_1_30)

func quietHandler(t *validate.T) {
	l := kit.NewLate(t)
	ca := kit.Open(t)
	have := ca.Port.Capability
	for range 20 {
		w := l.Watch()
		h, err := ca.OnEvent(func(ci.Event) { w.Callback() }, nil)
		kit.OK(t, err, "CA.OnEvent")
		kit.Own(t, h, "handler")
		have ^= ci.PortCapVendorClass
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability,
			ci.PortModify{CapMask: ci.PortCapVendorClass, Capability: have}), "CA.Modify of a capability bit")
		kit.Destroy(t, h, "handler")
		w.Destroyed()
	}
	if t.Claims().Has(ci.CapShutdownPort) {
		w := l.Watch()
		h, err := ca.OnEvent(func(ci.Event) { w.Callback() }, nil)
		kit.OK(t, err, "CA.OnEvent")
		kit.Own(t, h, "handler")
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
		kit.Destroy(t, h, "handler")
		w.Destroyed()
	}
	l.Silent("events of handlers that were destroyed after the port changed", quiet)
}

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapShutdownPort}).With(validate.Case{Spoils: true}).Add(
	"events.port-down", "take the port down", portDown,
	callbacksCases.Must("CI-PortEvent-01", "IBTA 11.6.3.3", "ci_modify_ca (6)",
		"A port that goes down raises the event port down once, with its number, and Query returns the state down."),
	req.SAS2_3_04, req.SAS2_1_10)

func portDown(t *validate.T) {
	ca := kit.Open(t)
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
	e := ca.Events.Wait(ci.EventPortDown)
	attr, err := ca.Query() // the event announces the new state, so Query must return it
	kit.OK(t, err, "CA.Query after the event")
	kit.Equal(t, "Event.Port", e.Port, ca.Port.Num)
	kit.True(t, e.Context == any(ca.Events), "Event.Context", "the context passed to OpenCA", "%v", e.Context)
	kit.Equal(t, "PortAttr.State after the event port down", attr.Ports[ca.Port.Num-1].State, ci.PortDown)
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}),
		"CA.Modify to shut down a port that is already down")
	kit.Equal(t, "events port down", ca.Events.Count(ci.EventPortDown), 1)
}

var _ = callbacksCases.Needing(validate.Needs{Caps: ci.CapShutdownPort}).With(validate.Case{Spoils: true}).Add(
	"events.port-down.traffic", "traffic after the port has gone down", portDownTraffic,
	callbacksCases.Must("CI-PortEvent-02", "IBTA 11.6.3.3", "ci_modify_ca (6)",
		"With its port down, a connection's requests complete with errors, and all objects can be destroyed."))

func portDownTraffic(t *validate.T) {
	first := kit.RC(t, kit.OwnPD)
	first.A.Exchange(first.B, 100)
	p := first.Another(quick...) // short timeouts only for the port that is down
	q := first.Another(quick...)
	p.B.Recv(p.B.RecvWR(1, 0, 64))
	q.A.Recv(q.A.RecvWR(1, 0, 64))
	kit.OK(t, p.A.QP.CA.Modify(p.A.QP.CA.Port.Num, ci.PortFieldShutdown, ci.PortModify{}),
		"CA.Modify to shut the port down")
	p.A.Send(p.A.SendWR(1, 0, 64), p.A.SendWR(2, 0, 64))
	p.A.CQ.WaitStatus(1, ci.WCTimeoutRetryErr, ci.WCFlushErr, ci.WCGeneralErr)
	p.A.CQ.WaitStatus(2, ci.WCFlushErr)
	p.A.QP.Becomes(ci.QPError)
	q.B.Send(q.B.SendWR(1, 0, 64))
	q.B.CQ.WaitStatus(1, ci.WCTimeoutRetryErr, ci.WCFlushErr, ci.WCGeneralErr)
	q.A.RecvCQ.Empty()
	for _, e := range []*kit.End{p.A, p.B, q.A, q.B, first.A, first.B} {
		kit.Destroy(t, e.QP.QP, "QP")
		kit.Destroy(t, e.CQ.CQ, "CQ")
		kit.Destroy(t, e.RecvCQ.CQ, "CQ")
		kit.Destroy(t, e.Buf.MR, "MR")
		kit.Destroy(t, e.PD, "PD")
	}
}
