package cmsuite

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Requests that end while they wait for Accept, values that do not fit, adapters beside each other, and MAD services
// that refuse an agent.

var _ = handoffs.Case(validate.Case{
	ID:    "cm.handoff.full",
	Title: "a request is handed off to a listener whose backlog is full, and then has room",
	Run:   handoffFull,
}, CMHandoff01)

func handoffFull(t *validate.T) {
	g := newRig(t)
	other := listen(t, g.m, cm.ListenConfig{Service: service + 1, Backlog: 1})
	waits := g.newREQ()
	waits.ServiceID = service + 1
	g.send(1, waits)
	k := g.request()
	id := k.ID()
	kit.WantExactly(t, k.Handoff(service+1), "cm.Conn.Handoff to a listener whose backlog is full", ci.NotFound)
	inState(t, k, cm.StateREQRcvd, "after a handoff that failed")
	c := accepted(t, other)
	kit.Equal(t, "REQ that has waited", c.Request().REQ, *waits)
	kit.OK(t, k.Handoff(service+1), "cm.Conn.Handoff to a listener with room")
	kit.Equal(t, "communication ID after the handoff", accepted(t, other).ID(), id)
}

var _ = stales.Case(validate.Case{
	ID:    "cm.stale.waiting",
	Title: "requests that the peer ends, and that time out, while they wait for Accept",
	Run:   staleWaiting,
}, CMStale03)

func staleWaiting(t *validate.T) {
	g := newTimed(t, cm.Config{})
	const other = service + 1
	l := listen(t, g.m, cm.ListenConfig{Service: other, Backlog: 1})
	request := func() *mad.REQ {
		q := g.newREQ()
		q.ServiceID, q.MaxCMRetries = other, 1
		q.LocalTimeout, q.RemoteTimeout, q.Primary.AckTimeout = timerTime, timerTime, timerLife+1
		g.send(uint64(q.LocalCommID), q)
		return q
	}
	full := func(where string) {
		q := g.newREQ()
		q.ServiceID = other
		g.send(1, q)
		g.sends("a REQ "+where, "REJ of REQ, "+mad.RejNoResources.String())
	}
	first := request()
	full("while another one waits")
	j := &mad.REJ{LocalCommID: first.LocalCommID, Message: mad.WhichREQ, Reason: mad.RejTimeout}
	kit.OK(t, j.SetAdditionalInfo(binary.BigEndian.AppendUint64(nil, first.LocalCAGUID)), "mad.REJ.SetAdditionalInfo")
	g.send(uint64(first.LocalCommID), j)
	second := request()
	g.sends("after a REJ of a REQ that waits, and another REQ", nothing)
	c := accepted(t, l)
	kit.Equal(t, "REQ after one that has ended", c.Request().REQ, *second)
	kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
	g.sends("after Reject", "REJ of REQ, consumer reject")

	third := request()
	g.sends("after a REQ that waits", nothing)
	g.passes(mad.TimeExp(timerTime).Duration(), "of a REQ that waits", "MRA of REQ")
	full("while another one waits for longer")
	g.clock.Advance(time.Hour)
	g.sends("after an hour", "REJ of REQ, timeout")
	fourth := request()
	c = accepted(t, l)
	kit.Equal(t, "REQ after one that was not accepted in time", c.Request().REQ, *fourth)
	kit.True(t, third.LocalCommID != fourth.LocalCommID, "communication IDs of two REQs", "two", "one")
	kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
	g.sends("after Reject", "REJ of REQ, consumer reject")
}

var _ = callers.Case(validate.Case{
	ID:    "cm.call.values",
	Title: "answers to a lookup whose values do not fit",
	Run:   callValues,
}, CMCall01)

func callValues(t *validate.T) {
	g := newRig(t)
	s := &sidrStage{g, g.y}
	l := listen(t, g.m, cm.ListenConfig{Datagram: true})
	q := s.lookup("values")
	s.send(7, q)
	r := s.taken(l, q)
	// A process may only name its own QPs.
	kit.WantExactly(t, r.Accept(1<<24, 5, nil), "cm.LookupRequest.Accept with a QP number of 25 bits",
		ci.InvalidParameter,
		ci.InvalidQPHandle)
	s.ignored("answers that failed")
	err := r.Accept(1<<24-1, 5, nil)
	if ci.StatusOf(err) == ci.InvalidQPHandle {
		kit.OK(t, r.Reject(mad.SIDRRejected, nil, nil), "cm.LookupRequest.Reject after answers that failed")
		s.answered(q, 7, mad.SIDRRejected, "SIDR_REP")
		return
	}
	kit.OK(t, err, "cm.LookupRequest.Accept with the largest QP number")
	kit.Equal(t, "QP number of the answer", s.answered(q, 7, mad.SIDRValid, "SIDR_REP").QPN, 1<<24-1)
}

var _ = timers.Case(validate.Case{
	ID:    "cm.timer.cancelled",
	Title: "the timer of a LAP whose call was cancelled, and those of an adapter that was removed",
	Run:   timerCancelled,
}, CMTimer01)

func timerCancelled(t *validate.T) {
	const retries = 2
	g := newTimed(t, cm.Config{})
	if t.Claims().Has(ci.CapAPM) {
		k := g.opened(timerTime, retries)
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			kit.OK(t, k.StartLoadAlternate(ctx, cm.AlternateConfig{Path: g.there.path(g.here)},
				func(_ *mad.APR, err error) { k.outcome <- err }), "cm.Conn.StartLoadAlternate")
			g.sends("after StartLoadAlternate", "LAP")
			cancel()
			err := g.await(k)
			kit.True(t, errors.Is(err, context.Canceled), "outcome of a call that was cancelled", "context.Canceled",
				"%v", err)
			g.clock.Advance(time.Hour)
			g.sends("long after a call that was cancelled", nothing)
			inState(t, k, cm.StateEstablished, "long after a call that was cancelled")
		}
	}
	k := g.asking(timerTime, retries)
	g.there.remove()
	for range retries + 1 {
		g.armed(around(timerTime))
		g.clock.Advance(around(timerTime))
	}
	err := g.await(k)
	kit.True(t, errors.Is(err, cm.ErrTimeout), "outcome of a request whose adapter was removed", "cm.ErrTimeout",
		"%v", err)
}

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.closed",
	Title: "a connection that leaves time-wait early is closed before it has left",
	Run:   limitClosed,
}, CMLimit06)

func limitClosed(t *validate.T) {
	g := newTimed(t, cm.Config{MaxTimeWait: 1})
	end := func() *linked {
		k := g.answered(func(q *mad.REQ) { q.Primary.AckTimeout = 22 })
		g.tell(k, "RTU", nothing)
		g.tell(k, "DREQ", nothing)
		g.tell(k, "DREQ", "DREP")
		return k
	}
	isFree := func(k *linked) {
		g.send(k.tid, k.req)
		c := accepted(t, g.l)
		kit.Equal(t, "REQ of a connection that has left time-wait", c.Request().REQ, *k.req)
		kit.OK(t, c.Close(), "cm.Conn.Close")
		g.sync("after Close")
	}
	one := end()
	two := end() // one must leave
	kit.OK(t, one.Close(), "cm.Conn.Close of a connection that leaves time-wait")
	g.clock.Advance(1)
	inState(t, one, cm.StateClosed, "of the connection that left time-wait")
	inState(t, two, cm.StateTimeWait, "of the other connection")
	three := end()
	g.clock.Advance(1)
	inState(t, two, cm.StateClosed, "of the second connection, after a third")
	inState(t, three, cm.StateTimeWait, "of the third connection")
	isFree(one)
}

var _ = arguments.Case(validate.Case{
	ID:    "cm.arguments.adapters",
	Title: "alternate paths on another adapter than the connection's",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   argumentAdapters,
}, CMArg01)

func argumentAdapters(t *validate.T) {
	statesAtOnce(t)
	ha, hb := t.Pair()
	a := newSide(t, ha)
	kit.OK(t, a.al.Register(hb), "Registrar.Register of a second adapter")
	kit.OK(t, a.al.WaitPnP(t.Context()), "AL.WaitPnP")
	in, err := a.client.HCA(hb.Info().GUID)
	kit.OK(t, err, "Client.HCA")
	b := &side{t: t, al: a.al, client: a.client, hca: hb, ca: kit.OpenHCA(t, in)}
	b.port = mads.Port{CA: hb.Info().GUID, Num: b.ca.Port.Num}
	m := a.managerWith(cm.Config{})
	l := listen(t, m, cm.ListenConfig{Port: b.port})
	here, there := a.path(b), b.path(a)
	cfg := cm.ConnectConfig{Service: service, QP: cm.QP{Num: 0x123, Type: ci.RC, StartPSN: 7}, Primary: here,
		RetryCount: 7, RNRRetry: 7}
	bad := cfg
	bad.Alternate = &there
	kit.WantExactly(t, m.StartConnect(t.Context(), bad, func(cm.Conn, error) {}),
		"cm.Service.StartConnect with an alternate path on another adapter", ci.InvalidParameter)
	awaitConnect := result(t, "cm.Service.Connect",
		func(ctx context.Context) (cm.Conn, error) { return m.Connect(ctx, cfg) })
	c := accepted(t, l)
	kit.Equal(t, "QP of the REQ", c.Request().LocalQPN, 0x123)
	done := make(chan error, 1)
	kit.OK(t, c.StartAccept(t.Context(), cm.AcceptConfig{QP: cm.QP{Num: 0x321, Type: ci.RC}, RNRRetry: 7},
		func(err error) { done <- err }), "cm.Conn.StartAccept")
	k, err := awaitConnect()
	kit.OK(t, err, "cm.Service.Connect between two adapters of an access layer")
	kit.OK(t, k.Confirm(nil), "cm.Conn.Confirm")
	kit.OK(t, await(t, done, "cm.Conn.StartAccept"), "cm.Conn.StartAccept")
	kit.WantExactly(t, k.StartLoadAlternate(t.Context(), cm.AlternateConfig{Path: there}, func(*mad.APR, error) {}),
		"cm.Conn.StartLoadAlternate with a path on another adapter", ci.InvalidParameter)
	inState(t, &end{side: a, Conn: k}, cm.StateEstablished, "after a call that failed")
}

// refusing is MAD services that a case has refuse agents, and report ports that do not exist.
type refusing struct {
	mads.Service
	t        *validate.T
	phantom  mads.Port // that Watch reports first; CA 0: none
	mu       sync.Mutex
	register func(cfg mads.AgentConfig) error // called before Register; nil: nothing
	asked    []mads.Port                      // by calls of Register
}

func (r *refusing) set(register func(cfg mads.AgentConfig) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.register, r.asked = register, nil
}

func (r *refusing) Register(cfg mads.AgentConfig) (mads.Agent, error) {
	r.mu.Lock()
	r.asked = append(r.asked, cfg.Port)
	register := r.register
	r.mu.Unlock()
	if register != nil {
		if err := register(cfg); err != nil {
			return nil, err
		}
	}
	return r.Service.Register(cfg)
}

// Watch returns a function that does not wait, so that f may call it.
func (r *refusing) Watch(f func(mads.Port, bool)) (stop func()) {
	if r.phantom.CA != 0 {
		f(r.phantom, true)
	}
	inner := r.Service.Watch(f)
	return func() { r.t.Go(inner) }
}

var _ = managers.Case(validate.Case{
	ID:    "cm.manager.refused",
	Title: "managers of ports whose agents are refused, that do not exist, and that come while the manager closes",
	Run:   managerRefused,
}, CMManager02)

func managerRefused(t *validate.T) {
	a, b := sides(t)
	r := &refusing{Service: a.local().mads, t: t}
	lookup := func(m *cm.Manager) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return m.StartLookup(ctx, cm.LookupConfig{Service: service, Path: a.path(b)},
			func(*cm.LookupReply, error) {})
	}
	r.set(func(mads.AgentConfig) error {
		return &ci.Error{Verb: "mads.Register", Status: ci.InsufficientResources}
	})
	m, err := cm.New(a.al, r, cm.Config{})
	kit.OK(t, err, "cm.New with MAD services that refuse an agent for lack of resources")
	kit.WantExactly(t, lookup(m), "cm.Service.StartLookup on a port whose agent was refused", ci.InvalidPort)
	kit.OK(t, m.Close(), "cm.Service.Close")

	r.phantom = mads.Port{CA: 0x7777, Num: 1}
	r.set(nil)
	m, err = cm.New(a.al, r, cm.Config{})
	kit.OK(t, err, "cm.New with MAD services that report a port of no adapter")
	kit.True(t, !slices.Contains(r.asked, r.phantom), "agents for a port of no adapter", "none", "some")
	kit.OK(t, lookup(m), "cm.Service.StartLookup beside a port of no adapter")

	kit.OK(t, a.al.Deregister(a.port.CA), "AL.Deregister")
	closes := sync.OnceFunc(func() {
		if err := m.Close(); err != nil {
			t.Report(validate.Failure{Where: "cm.Service.Close", Expected: "success", Got: kit.Describe(err)})
		}
	})
	r.set(func(mads.AgentConfig) error { closes(); return nil })
	kit.OK(t, a.al.Register(a.hca), "Registrar.Register")
	kit.OK(t, a.al.WaitPnP(t.Context()), "AL.WaitPnP")
	kit.True(t, len(r.asked) > 0, "agents of a port that comes", "at least one", "none")
	for v := mad.ClassVersionCM - 1; v <= mad.ClassVersionCM+1; v++ {
		x := a.agent(mads.AgentConfig{Class: mad.ClassCM, Version: uint8(v), Methods: []mad.Method{mad.Send}})
		kit.OK(t, x.Close(), "mads.Agent.Close")
	}
}
