package cisuite

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// callbacksArea: asynchronous events, and the rules of context of callbacks. (SAS 2.1, callbacks; IBTA 11.6.)
func callbacksArea() validate.Suite {
	const handlers = "ci_register_event_handler (2), ci_unregister_event_handler (3)"
	s := validate.Suite{Requirements: []req.Requirement{
		{ID: "CI-Callback-01", Text: "A callback that blocks holds up callbacks of its own object only.", Level: req.Should, Section: "CI context",
			Source: "ci, Event: callbacks of different objects may overlap", Scope: req.Driver},
		req.Driver.Must("CI-Callback-02", "CI context", "ci, Event", "Events of one object come one at a time."),
		req.Driver.Must("CI-Callback-03", "CI context", "ci, Context", "Verbs of callback and data context work inside a callback."),
		req.Driver.Must("CI-EventComm-01", "IBTA 11.6.3.1", "ci_create_qp (22)", "The event communication established comes once when a QP in RTR receives."),
		req.Driver.Must("CI-EventHandler-01", "CI context", handlers, "Each registered handler gets each event of the CA and its ports once, with its own context, and so does the callback of the open."),
		req.Driver.Must("CI-EventHandler-02", "CI context", handlers, "A handler that was destroyed gets no event, and the others go on."),
		req.Driver.Must("CI-EventHandler-03", "CI context", handlers, "A handler without function is InvalidParameter."),
		req.Driver.Must("CI-PortEvent-01", "IBTA 11.6.3.3", "ci_modify_ca (6)", "A port that goes down raises the event port down once, with its number, and a query shows it down."),
		req.Driver.Must("CI-PortEvent-02", "IBTA 11.6.3.3", "ci_modify_ca (6)", "With its port down, work of a connection fails with an error completion, and everything can be destroyed."),
	}}
	s.Cases = []validate.Case{
		validate.NewCase("callbacks.quiet.qp", "destroy a QP with an event on its way", validate.FeatureTeardown, quietQP, "SAS-2.1-30"),
		validate.NewCase("callbacks.handed-over", "a callback has its object destroyed by another goroutine", validate.FeatureTeardown, handedOver, "SAS-2.1-28", "SAS-2.1-30"),
		validate.NewCase("callbacks.early", "serve a callback from its context alone", validate.FeatureEvents, earlyCallback, "SAS-2.1-12", "SAS-2.1-09"),
		validate.NewCase("callbacks.one-at-a-time", "many events of one QP", validate.FeatureEvents, oneAtATime, "CI-Callback-02", "SAS-2.3-21"),
		validate.NewCase("events.order", "two events of one QP in a row", validate.FeatureEvents, eventOrder, "SAS-2.3-21"),
		validate.NewCase("events.comm", "receive in RTR", validate.FeatureEvents, eventComm, "CI-EventComm-01", "SAS-2.1-10"),
		validate.NewCase("events.context.qp", "context of a QP's event", validate.FeatureEvents, contextQP, "SAS-2.1-10"),
	}
	blocked := validate.NewCase("callbacks.blocked", "block in one callback and wait for another", validate.FeatureEvents, blockedCallback, "CI-Callback-01")
	blocked.Timeout = 3 * time.Second
	s.Cases = append(s.Cases, blocked)
	add := func(n validate.Needs, cases ...validate.Case) { s.Cases = append(s.Cases, needing(n, cases...)...) }
	add(validate.Needs{Caps: ci.CapAV},
		validate.NewCase("callbacks.verbs", "make and destroy address vectors, post, poll and arm in a callback", validate.FeatureEvents, callbackVerbs, "CI-Callback-03"))
	add(validate.Needs{Caps: ci.CapSRQ},
		validate.NewCase("events.context.srq", "context of an SRQ's event", validate.FeatureEvents, contextSRQ, "SAS-2.1-10"),
		validate.NewCase("callbacks.quiet.srq", "destroy an SRQ with an event on its way", validate.FeatureTeardown, quietSRQ, "SAS-2.1-30"))
	add(validate.Needs{Caps: ci.CapEventHandlers},
		validate.NewCase("events.handlers.nil", "register nothing", validate.FeatureEvents, handlersNil, "CI-EventHandler-03"))
	// Each of these may take a port down, which no verb brings up again.
	spoiling := func(cases ...validate.Case) []validate.Case {
		for i := range cases {
			cases[i].Spoils = true
		}
		return cases
	}
	s.Cases = append(s.Cases, spoiling(
		validate.NewCase("events.context.ca", "an event of a port comes to the callback of the open", validate.FeatureEvents, contextCA, "SAS-2.3-04", "SAS-2.1-10"),
		validate.NewCase("callbacks.quiet.ca", "close a CA with an event on its way", validate.FeatureTeardown, quietCA, "SAS-2.1-30"))...)
	add(validate.Needs{Caps: ci.CapEventHandlers}, spoiling(
		validate.NewCase("events.handlers.each", "three handlers and an event", validate.FeatureEvents, handlersEach, "CI-EventHandler-01", "SAS-2.1-10"),
		validate.NewCase("events.handlers.gone", "destroy one of three handlers", validate.FeatureEvents, handlersGone, "CI-EventHandler-02"),
		validate.NewCase("callbacks.quiet.handler", "destroy a handler with an event on its way", validate.FeatureTeardown, quietHandler, "SAS-2.1-30"))...)
	add(validate.Needs{Caps: ci.CapShutdownPort}, spoiling(
		validate.NewCase("events.port-down", "take the port down", validate.FeatureEvents, portDown, "CI-PortEvent-01", "SAS-2.3-04", "SAS-2.1-10"),
		validate.NewCase("events.port-down.traffic", "traffic when the port has gone down", validate.FeatureEvents, portDownTraffic, "CI-PortEvent-02"))...)
	return s
}

// pairWith is another connection beside p, of which the QP of A has this context and callback.
func pairWith(p *kit.Pair, ctx any, onEvent func(ci.Event)) *kit.Pair {
	p.A.Config.Context, p.A.Config.OnEvent = ctx, onEvent
	return p.More(false)
}

// drain has a QP in RTS raise the event SQ drained.
func drain(t *validate.T, q *kit.QP) {
	kit.OK(t, q.Modify(ci.QPFieldState|ci.QPFieldSQDEvent, ci.QPAttr{State: ci.QPSQD, SQDEvent: true}), "QP.Modify to SQD, with event")
}

// expect waits for a value of a channel that a callback fills.
func expect[V any](t *validate.T, c <-chan V, where string) V {
	timer := time.NewTimer(t.Remaining())
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fail(validate.Failure{Where: where, Expected: "a callback", Got: "none by the deadline"})
		panic("not reached: Fail ends the case")
	}
}

// soon gives a callback the time that it may take to come, and tells whether one has.
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

func quietQP(t *validate.T) {
	l := kit.NewLate(t)
	p := kit.RC(t)
	for range 20 {
		w := l.Watch()
		q := pairWith(p, nil, func(ci.Event) { w.Callback() })
		drain(t, q.A.QP)
		kit.Destroy(t, q.A.QP.QP, "QP")
		w.Gone()
	}
	l.Silent("events of 20 QPs that were destroyed as they drained", quiet)
}

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
				t.Report(validate.Failure{Rule: "SAS-2.1-30", Where: "QP.Destroy, handed to another goroutine by the QP's callback",
					Expected: "a return after that of the callback", Got: "a return before"})
			}
			done <- err
		})
		// The destroy is under way while this callback still runs; it must wait, and this must not.
		timer := time.NewTimer(5 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-release:
		}
	})
	drain(t, q.A.QP)
	kit.OK(t, expect(t, done, "QP.Destroy, handed to another goroutine by the QP's callback"), "QP.Destroy from another goroutine")
	other.A.Exchange(other.B, 100)
	wantGone(t, q.A.QP)
}

func earlyCallback(t *validate.T) {
	p := kit.RC(t)
	// Everything that a callback may use hangs off the context; no variable that the create still has to fill is touched.
	type owner struct {
		name  string
		rings chan string
	}
	for i := range 10 {
		o := &owner{fmt.Sprintf("object %d", i), make(chan string, 64)}
		fn := func(ctx any) {
			if c, ok := ctx.(*owner); ok {
				c.rings <- c.name
				return
			}
			o.rings <- fmt.Sprintf("%v, of another type than was given", ctx)
		}
		cq := p.A.QP.CA.CQWith(p.A.PD, ci.CQCreate{Size: 16, Context: o, OnCompletion: fn})
		q := p.A.QP.CA.QP(p.A.PD, p.A.CQ, cq, kit.With(func(c *kit.Config) {
			c.Context, c.OnEvent = o, func(e ci.Event) { fn(e.Context) }
		}))
		kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
		q.Init()
		q.Recv(p.A.RecvWR(1, 0, 1))
		q.To(ci.QPError)
		kit.Equal(t, "context that a completion callback was given", expect(t, o.rings, "a flushed receive on an armed CQ"), o.name)
	}
}

// oneAtATime raises events while a callback of the same object runs. Each callback stays until another one has begun, or for a moment:
// a driver that runs them at the same time escapes only if none of its goroutines runs in any of these moments.
func oneAtATime(t *validate.T) {
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
		kit.True(t, expect(t, seen, where), where, "a callback when no other of the object runs", "one inside another")
	}
}

func eventOrder(t *validate.T) {
	p := kit.NewPairInReset(t)
	a, b := p.A, p.B
	b.QP.Init()
	b.Recv(b.RecvWRs(2, 1)...)
	a.QP.Init()
	b.RTR(a.QP)
	a.RTR(b.QP)
	a.RTS()
	a.Send(a.SendWR(1, 0, 1))
	b.RecvCQ.WaitOK(1) // communication is established: the first event
	b.RTS()
	drain(t, b.QP) // the second
	b.Events.Wait(ci.EventSQDrained)
	b.Events.Wait(ci.EventQPComm)
	var got []string
	for _, e := range b.Events.All() {
		got = append(got, e.Type.String())
	}
	kit.Equal(t, "events of a QP that received in RTR and was drained in RTS", fmt.Sprint(got),
		fmt.Sprint([]string{ci.EventQPComm.String(), ci.EventSQDrained.String()}))
}

func eventComm(t *validate.T) {
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
	kit.True(t, e.Context == any(b.Events), "Event.Context", "the context of the QP's create", "%v", e.Context)
	b.RTS()
	a.Send(a.SendWR(4, 0, 1))
	b.RecvCQ.WaitOK(4)
	drain(t, b.QP) // events come in order, so this one comes behind every other
	b.Events.Wait(ci.EventSQDrained)
	kit.Equal(t, "events communication established", b.Events.Count(ci.EventQPComm), 1)
	a.Events.Only()
}

func contextQP(t *validate.T) {
	p := kit.RC(t)
	for _, ctx := range []any{"a word", 42, &struct{ n int }{7}, nil} {
		got := make(chan ci.Event, 8)
		q := pairWith(p, ctx, func(e ci.Event) { got <- e })
		if ctx == nil {
			ctx = any(q.A.Events) // kit gives its own
		}
		drain(t, q.A.QP)
		e := expect(t, got, "the event SQ drained")
		kit.Equal(t, "Event.Type", e.Type, ci.EventSQDrained)
		kit.True(t, e.Context == ctx, "Event.Context of a QP", fmt.Sprintf("%v", ctx), "%v", e.Context)
	}
}

func blockedCallback(t *validate.T) {
	p := kit.RC(t)
	entered, release := make(chan struct{}, 8), make(chan struct{})
	defer close(release)
	q := pairWith(p, nil, func(ci.Event) { entered <- struct{}{}; <-release })
	drain(t, q.A.QP)
	expect(t, entered, "the event of the first QP")
	got := make(chan ci.Event, 8)
	r := pairWith(p, nil, func(e ci.Event) { got <- e })
	drain(t, r.A.QP)
	expect(t, got, "the event of a second QP, while the callback of the first blocks")

	bl := newBell(t)
	cq := p.A.QP.CA.CQWith(p.A.PD, ci.CQCreate{Size: 16, OnCompletion: bl.ring})
	s := p.A.QP.CA.QP(p.A.PD, p.A.CQ, cq)
	kit.OK(t, cq.Notify(ci.NotifyNext), "CQ.Notify")
	s.Init()
	s.Recv(p.A.RecvWR(1, 0, 1))
	s.To(ci.QPError)
	bl.wait("a completion, while the callback of a QP blocks")
}

func callbackVerbs(t *validate.T) {
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
				return fmt.Errorf("QP.PostRecv took %d of 1: %w", n, err)
			}
			if n, err := q.A.PostSend([]ci.SendWR{q.A.SendWR(2, 0, 1)}); n != 1 || err != nil {
				return fmt.Errorf("QP.PostSend in SQD took %d of 1: %w", n, err)
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
	kit.OK(t, expect(t, result, "an event callback that calls verbs"), "verbs inside an event callback")
	q.B.Recv(q.B.RecvWR(3, 0, 1))
	kit.OK(t, q.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQD to RTS")
	q.A.CQ.WaitOK(2)
	q.B.Send(q.B.SendWR(4, 0, 1))
	q.A.RecvCQ.WaitOK(1)
}

// limited is an SRQ of one QP of B that raises its limit event when a message of A takes its last receive but one.
func limited(t *validate.T, p *kit.Pair, ctx any, onEvent func(ci.Event)) (s ci.SRQ, trip func(), q *kit.QP) {
	b := p.B
	in, err := b.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 8, MaxSGE: 1}, Context: ctx, OnEvent: onEvent})
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

func contextSRQ(t *validate.T) {
	p := kit.RC(t)
	got := make(chan ci.Event, 8)
	ctx := &struct{ n int }{3}
	_, trip, _ := limited(t, p, ctx, func(e ci.Event) { got <- e })
	trip()
	e := expect(t, got, "the event SRQ limit reached")
	kit.Equal(t, "Event.Type", e.Type, ci.EventSRQLimit)
	kit.True(t, e.Context == any(ctx), "Event.Context of an SRQ", "the context of its create", "%v", e.Context)
	_, again := soon(got)
	kit.True(t, !again, "events SRQ limit reached, armed once", "one", "two")
}

func quietSRQ(t *validate.T) {
	l := kit.NewLate(t)
	p := kit.RC(t)
	for range 10 {
		w := l.Watch()
		s, trip, q := limited(t, p, nil, func(ci.Event) { w.Callback() })
		trip()
		kit.Destroy(t, q.QP, "QP")
		kit.Destroy(t, s, "SRQ")
		w.Gone()
	}
	l.Silent("events of 10 SRQs that were destroyed when their limit was reached", quiet)
}

// provoke has the CA raise one event of its port: the change of a capability bit or, where that raises none, the port going down.
// seen receives events that the case's own callback gets. The case ends with a skip where nothing can be provoked.
func provoke(t *validate.T, ca *kit.CA, seen <-chan ci.Event) ci.Event {
	bit := ci.PortCapVendorClass
	m := ci.PortModify{CapMask: bit, Capability: ^ca.Port.Capability & bit}
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability, m), "CA.Modify of a capability bit")
	if e, ok := soon(seen); ok {
		return e
	}
	if !t.Claims().Has(ci.CapShutdownPort) {
		t.Skip("a change of a port's capability raises no event, and ShutdownPort is not claimed: no event of the CA can be provoked")
	}
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
	return expect(t, seen, "an event of the port that goes down")
}

// openWith opens the HCA with a callback of the case's.
func openWith(t *validate.T, ctx any, onEvent func(ci.Event)) *kit.CA {
	first := kit.Open(t)
	port := *first.Port
	kit.OK(t, first.Destroy(), "CA.Destroy")
	in, err := first.HCA.OpenCA(first.HCA.Info().GUID, onEvent, ctx)
	kit.OK(t, err, "HCA.OpenCA")
	ca := &kit.CA{CA: in, T: t, HCA: first.HCA, Attr: first.Attr, Port: &port}
	t.Cleanup(func() { _ = in.Destroy() }) // a case that ends early; the others have closed it
	return ca
}

func contextCA(t *validate.T) {
	ctx := &struct{ n int }{5}
	got := make(chan ci.Event, 64)
	ca := openWith(t, ctx, func(e ci.Event) { got <- e })
	e := provoke(t, ca, got)
	kit.True(t, e.Context == any(ctx), "Event.Context of a port's event", "the context given to OpenCA", "%v", e.Context)
	kit.Equal(t, "Event.Port", e.Port, ca.Port.Num)
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

func quietCA(t *validate.T) {
	l := kit.NewLate(t)
	for range 10 {
		w := l.Watch()
		ca := openWith(t, nil, func(ci.Event) { w.Callback() })
		m := ci.PortModify{CapMask: ci.PortCapVendorClass, Capability: ^ca.Port.Capability & ci.PortCapVendorClass}
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability, m), "CA.Modify of a capability bit")
		kit.OK(t, ca.Destroy(), "CA.Destroy")
		w.Gone()
	}
	if t.Claims().Has(ci.CapShutdownPort) {
		w := l.Watch()
		ca := openWith(t, nil, func(ci.Event) { w.Callback() })
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
		kit.OK(t, ca.Destroy(), "CA.Destroy")
		w.Gone()
	}
	l.Silent("events of CAs that were closed as their port changed", quiet)
}

func handlersNil(t *validate.T) {
	h, err := kit.Open(t).OnEvent(nil, nil)
	kit.WantRefused(t, h, err, "CA.OnEvent without function", ci.InvalidParameter)
}

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

// hears expects the event, once.
func (l *listener) hears(t *validate.T, want ci.EventType) {
	where := fmt.Sprintf("events of %v", l.ctx)
	e := expect(t, l.got, where)
	kit.Equal(t, where+": Type", e.Type, want)
	kit.True(t, e.Context == l.ctx, where+": Context", fmt.Sprint(l.ctx), "%v", e.Context)
	if e, twice := soon(l.got); twice && e.Type == want {
		t.Fail(validate.Failure{Where: where, Expected: "the event once", Got: "twice"})
	}
}

func handlersEach(t *validate.T) {
	first := make(chan ci.Event, 64)
	ca := openWith(t, "open", func(e ci.Event) { first <- e })
	hs := listeners(t, ca, 3)
	e := provoke(t, ca, first)
	kit.True(t, e.Context == any("open"), "Event.Context at the callback of the open", "the context given to OpenCA", "%v", e.Context)
	for _, h := range hs {
		h.hears(t, e.Type)
		kit.Destroy(t, h.o, "handler")
	}
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

func handlersGone(t *validate.T) {
	first := make(chan ci.Event, 64)
	ca := openWith(t, "open", func(e ci.Event) { first <- e })
	hs := listeners(t, ca, 3)
	kit.DestroyTwice(t, hs[1].o, "handler", ci.InvalidHandle)
	e := provoke(t, ca, first)
	hs[0].hears(t, e.Type)
	hs[2].hears(t, e.Type)
	_, late := soon(hs[1].got)
	kit.True(t, !late, "events of a handler that was destroyed", "none", "one")
	kit.Destroy(t, hs[0].o, "handler")
	kit.Destroy(t, hs[2].o, "handler")
	kit.OK(t, ca.Destroy(), "CA.Destroy")
}

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
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldCapability, ci.PortModify{CapMask: ci.PortCapVendorClass, Capability: have}), "CA.Modify of a capability bit")
		kit.Destroy(t, h, "handler")
		w.Gone()
	}
	if t.Claims().Has(ci.CapShutdownPort) {
		w := l.Watch()
		h, err := ca.OnEvent(func(ci.Event) { w.Callback() }, nil)
		kit.OK(t, err, "CA.OnEvent")
		kit.Own(t, h, "handler")
		kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
		kit.Destroy(t, h, "handler")
		w.Gone()
	}
	l.Silent("events of handlers that were destroyed as the port changed", quiet)
}

func portDown(t *validate.T) {
	ca := kit.Open(t)
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
	e := ca.Events.Wait(ci.EventPortDown)
	attr, err := ca.Query() // the event says that the state has changed: whoever gets it can look
	kit.OK(t, err, "CA.Query after the event")
	kit.Equal(t, "Event.Port", e.Port, ca.Port.Num)
	kit.True(t, e.Context == any(ca.Events), "Event.Context", "the context given to OpenCA", "%v", e.Context)
	kit.Equal(t, "PortAttr.State after the event port down", attr.Ports[ca.Port.Num-1].State, ci.PortDown)
	kit.OK(t, ca.Modify(ca.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut down a port that is down")
	kit.Equal(t, "events port down", ca.Events.Count(ci.EventPortDown), 1)
}

func portDownTraffic(t *validate.T) {
	first := kit.RC(t)
	first.A.Exchange(first.B, 100)
	p := first.Another(quick...) // quick timeouts are for the port that is down alone
	p.B.Recv(p.B.RecvWR(1, 0, 64))
	kit.OK(t, p.A.QP.CA.Modify(p.A.QP.CA.Port.Num, ci.PortFieldShutdown, ci.PortModify{}), "CA.Modify to shut the port down")
	p.A.Send(p.A.SendWR(1, 0, 64), p.A.SendWR(2, 0, 64))
	p.A.CQ.WaitStatus(1, ci.WCTimeoutRetryErr, ci.WCFlushErr, ci.WCGeneralErr)
	p.A.CQ.WaitStatus(2, ci.WCFlushErr)
	p.A.QP.Becomes(ci.QPError)
	for _, e := range []*kit.End{p.A, p.B, first.A, first.B} {
		kit.Destroy(t, e.QP.QP, "QP")
		kit.Destroy(t, e.CQ.CQ, "CQ")
		kit.Destroy(t, e.RecvCQ.CQ, "CQ")
		kit.Destroy(t, e.Buf.MR, "MR")
		kit.Destroy(t, e.PD, "PD")
	}
}
