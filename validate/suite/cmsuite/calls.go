package cmsuite

import (
	"context"
	"errors"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Calls of consumers: with functions instead of goroutines that wait, with contexts that end, and their events.
var callers = area()

var CMCall01 = callers.Must("CM-Call-01", "CI access layer", "cm, Service, Listener, Conn",
	"A call without a function for its result fails with InvalidParameter, and one whose context has ended fails with "+
		"the context's error. Neither sends a message or changes a state.")

var _ = callers.Case(validate.Case{
	ID:    "cm.call.refused",
	Title: "calls without a function, with a context that has ended, and with bad arguments",
	Run:   callRefused,
}, CMCall01)

func callRefused(t *validate.T) {
	g := newRig(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := t.Context()
	ok := g.y.request(g.here, nil)
	lookup := cm.LookupConfig{Service: service, Path: ok.Primary}
	datagram := listen(t, g.m, cm.ListenConfig{Datagram: true})
	asked, open := g.request(), g.open()
	g.sync("on the way to Established")
	path := cm.AlternateConfig{Path: ok.Primary}
	accept := g.y.acceptance(nil)
	first := func(_ any, err error) error { return err }

	for where, err := range map[string]error{
		"Service.StartConnect":       g.m.StartConnect(ctx, ok, nil),
		"Service.StartLookup":        g.m.StartLookup(ctx, lookup, nil),
		"Listener.StartAccept":       g.l.StartAccept(ctx, nil),
		"Listener.StartAcceptLookup": datagram.StartAcceptLookup(ctx, nil),
		"Conn.StartAccept":           asked.StartAccept(ctx, accept, nil),
		"Conn.StartDisconnect":       open.StartDisconnect(ctx, nil, nil),
		"Conn.StartLoadAlternate":    open.StartLoadAlternate(ctx, path, nil),
	} {
		kit.WantExactly(t, err, "cm."+where+" without a function", ci.InvalidParameter)
	}
	ends := map[string]error{
		"Service.Connect":         first(g.m.Connect(ended, ok)),
		"Service.Lookup":          first(g.m.Lookup(ended, lookup)),
		"Listener.Accept":         first(g.l.Accept(ended)),
		"Listener.AcceptLookup":   first(datagram.AcceptLookup(ended)),
		"Conn.Accept":             asked.Accept(ended, accept),
		"Conn.Disconnect":         first(open.Disconnect(ended, nil)),
		"Conn.Next":               first(asked.Next(ended)),
		"Service.StartConnect":    g.m.StartConnect(ended, ok, func(cm.Conn, error) {}),
		"Service.StartLookup":     g.m.StartLookup(ended, lookup, func(*cm.LookupReply, error) {}),
		"Listener.StartAccept":    g.l.StartAccept(ended, func(cm.Conn, error) {}),
		"Conn.StartAccept":        asked.StartAccept(ended, accept, func(error) {}),
		"Conn.StartDisconnect":    open.StartDisconnect(ended, nil, func([]byte, error) {}),
		"Conn.LoadAlternate":      first(open.LoadAlternate(ended, path)),
		"Conn.StartLoadAlternate": open.StartLoadAlternate(ended, path, func(*mad.APR, error) {}),
	}
	for where, err := range ends {
		kit.True(t, errors.Is(err, context.Canceled), "cm."+where+" with a context that has ended", "context.Canceled",
			"%v", err)
	}
	bad := func(change func(*cm.ConnectConfig)) error {
		c := ok
		change(&c)
		return first(g.m.Connect(ctx, c))
	}
	accepts := func(change func(*cm.AcceptConfig)) error {
		c := accept
		change(&c)
		return asked.Accept(ctx, c)
	}
	for where, err := range map[string]error{
		"Service.Connect of a QP for datagrams": bad(func(c *cm.ConnectConfig) { c.QP.Type = ci.UD }),
		"Service.Connect with a comparison before the private data": bad(func(c *cm.ConnectConfig) {
			c.Peer, c.Offset, c.Compare = true, -1, []byte("a")
		}),
		"Service.Connect with a comparison beyond the private data": bad(func(c *cm.ConnectConfig) {
			c.Peer, c.Offset, c.Compare = true, mad.REQPrivateLen, []byte("a")
		}),
		"Conn.Accept with a QP for datagrams":   accepts(func(c *cm.AcceptConfig) { c.QP.Type = ci.UD }),
		"Conn.Accept with another QP type":      accepts(func(c *cm.AcceptConfig) { c.QP.Type = ci.UC }),
		"Conn.Accept with an RNR retry count 8": accepts(func(c *cm.AcceptConfig) { c.RNRRetry = 8 }),
		"Conn.Accept with too much private data": accepts(func(c *cm.AcceptConfig) {
			c.Private = make([]byte, mad.REPPrivateLen+1)
		}),
		"Conn.Disconnect with too much private data": first(open.Disconnect(ctx, make([]byte, mad.DREQPrivateLen+1))),
		"Conn.LoadAlternate with too much private data": first(open.LoadAlternate(ctx,
			cm.AlternateConfig{Path: ok.Primary, Private: make([]byte, mad.LAPPrivateLen+1)})),
		"Conn.Delay with a time of 6 bits": asked.Delay(mad.MaxTimeExp+1, nil),
		"Modify without a QP":              cm.Modify(nil, open, ci.QPInit, 0),
		"Modify without a connection":      cm.Modify(g.y.End.QP, nil, ci.QPInit, 0),
		"Modify to Error":                  cm.Modify(g.y.End.QP, open, ci.QPError, 0),
	} {
		kit.WantExactly(t, err, "cm."+where, ci.InvalidParameter)
	}
	elsewhere := ok.Primary
	elsewhere.Port.Num = uint8(len(t.Attr().Ports)) + 1
	kit.WantExactly(t, first(open.LoadAlternate(ctx, cm.AlternateConfig{Path: elsewhere})),
		"cm.Conn.LoadAlternate on a port that the CA does not have", ci.InvalidPort)
	kit.Equal(t, "messages after calls that failed", texts(g.sync("after calls that failed")), nothing)
	inState(t, asked, cm.StateREQRcvd, "after calls that failed")
	inState(t, open, cm.StateEstablished, "after calls that failed")
	kit.True(t, asked.Reply() == nil, "cm.Conn.Reply before the REP", "nil", "%+v", asked.Reply())

	// The largest values are valid.
	kit.OK(t, asked.Delay(mad.MaxTimeExp, nil), "cm.Conn.Delay with the longest time")
	mra, _ := expect[*mad.MRA](g.script, "MRA")
	kit.Equal(t, "service timeout of the MRA", mra.ServiceTimeout, mad.MaxTimeExp)
	ok.Peer, ok.Offset, ok.Compare = true, mad.REQPrivateLen-1, []byte("a")
	kit.OK(t, g.m.StartConnect(ctx, ok, func(cm.Conn, error) {}), "cm.Service.StartConnect that compares the last byte")
	expect[*mad.REQ](g.script, "REQ")
}

var CMCall02 = callers.Must("CM-Call-02", "CI access layer", "cm, Listener.StartAccept, StartAcceptLookup, Close",
	"Calls that wait for a request receive requests in the order of the calls. One whose context ends receives the "+
		"context's error and no request, and those that wait when the listener closes receive ErrClosed.")

var _ = callers.Case(validate.Case{
	ID:    "cm.call.waiting",
	Title: "calls that wait for requests of both kinds",
	Run:   callWaiting,
}, CMCall02)

// taken is the result of a call that waits for a request.
type taken struct {
	id  uint32 // of the request's sender
	err error
}

func callWaiting(t *validate.T) {
	g := newRig(t)
	s := &sidrStage{g, g.y}
	datagram := listen(t, g.m, cm.ListenConfig{Datagram: true})
	for _, v := range kit.Variants(t, "", []struct {
		name  string
		start func(ctx context.Context, done func(taken)) error
		block func(ctx context.Context) error
		send  func() uint32
		close func() error
	}{
		{"connections", func(ctx context.Context, done func(taken)) error {
			return g.l.StartAccept(ctx, func(c cm.Conn, err error) {
				if err != nil {
					done(taken{err: err})
				} else {
					done(taken{id: c.RemoteID()})
				}
			})
		}, func(ctx context.Context) error { _, err := g.l.Accept(ctx); return err },
			func() uint32 { q := g.newREQ(); g.send(1, q); return q.LocalCommID }, g.l.Close},
		{"lookups", func(ctx context.Context, done func(taken)) error {
			return datagram.StartAcceptLookup(ctx, func(r cm.LookupRequest, err error) {
				if err != nil {
					done(taken{err: err})
				} else {
					done(taken{id: r.Request().RequestID})
				}
			})
		}, func(ctx context.Context) error { _, err := datagram.AcceptLookup(ctx); return err },
			func() uint32 { q := s.lookup("lookup"); s.send(1, q); return q.RequestID }, datagram.Close},
	}) {
		start := func(ctx context.Context) chan taken {
			c := make(chan taken, 1)
			kit.OK(t, v.start(ctx, func(r taken) { c <- r }), "start of a call that waits for "+v.name)
			return c
		}
		get := func(c chan taken, where string) taken {
			select {
			case r := <-c:
				return r
			case <-t.Context().Done():
				t.Failf(where, "a result by the deadline", "none")
				return taken{}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var calls []chan taken
		for i := range 5 {
			c := t.Context()
			if i == 1 || i == 3 {
				c = ctx
			}
			calls = append(calls, start(c))
		}
		blocked, stop := context.WithCancel(t.Context())
		wait := result(t, "call that waits for "+v.name,
			func(context.Context) (struct{}, error) { return struct{}{}, v.block(blocked) })
		cancel()
		for _, i := range []int{1, 3} {
			r := get(calls[i], "call whose context has ended")
			kit.True(t, errors.Is(r.err, context.Canceled), "call whose context has ended", "context.Canceled", "%v",
				r.err)
		}
		stop()
		_, err := wait()
		kit.True(t, errors.Is(err, context.Canceled), "blocked call whose context has ended", "context.Canceled", "%v",
			err)
		for _, i := range []int{0, 2} {
			id := v.send()
			r := get(calls[i], "call that waits for "+v.name)
			kit.OK(t, r.err, "call that waits for "+v.name)
			kit.Equal(t, fmt.Sprintf("request of call %d for %s", i, v.name), r.id, id)
		}
		id, next := v.send(), uint32(0)
		kit.Equal(t, "request of the last call for "+v.name, get(calls[4], "last call").id, id)
		id, next = v.send(), v.send() // no call waits
		kit.Equal(t, "messages after requests that wait", texts(g.sync("after requests that wait")), nothing)
		for _, want := range []uint32{id, next} {
			kit.Equal(t, "request that waited", get(start(t.Context()), "call for a request that waits").id, want)
		}
		last := start(t.Context())
		kit.OK(t, v.close(), "cm.Listener.Close")
		r := get(last, "call that waits when the listener closes")
		kit.True(t, errors.Is(r.err, cm.ErrClosed), "call that waits when the listener closes", "cm.ErrClosed", "%v",
			r.err)
		g.sync("after the end of the listener")
	}
}

var CMCall03 = callers.Must("CM-Call-03", "CI access layer", "cm, Conn.Accept, Disconnect, LoadAlternate",
	"If the context of a call that waits for the peer ends, the call ends with its error. Accept rejects the "+
		"connection, Disconnect goes on, and LoadAlternate leaves the connection as it was.")

var _ = callers.Case(validate.Case{
	ID:    "cm.call.cancelled",
	Title: "contexts that end while calls wait for the peer",
	Run:   callCancelled,
}, CMCall03)

func callCancelled(t *validate.T) {
	g := newRig(t)
	outcome := make(chan error, 1)
	cancelled := func(where string, start func(ctx context.Context) error) {
		ctx, cancel := context.WithCancel(t.Context())
		kit.OK(t, start(ctx), where)
		cancel()
		err := g.await(&linked{outcome: outcome})
		kit.True(t, errors.Is(err, context.Canceled), where+" whose context has ended", "context.Canceled", "%v", err)
	}
	k := g.request()
	cancelled("cm.Conn.StartAccept", func(ctx context.Context) error {
		return k.StartAccept(ctx, g.y.acceptance(nil), func(err error) { outcome <- err })
	})
	g.settledIn(k, cm.StateTimeWait)
	kit.Equal(t, "messages of Accept whose context has ended", texts(g.sync("after Accept")),
		"REP; REJ of REP, timeout")
	g.with(k, "RTU")
	inState(t, k, cm.StateTimeWait, "after a late RTU")

	k = g.open()
	g.sync("on the way to Established")
	cancelled("cm.Conn.StartDisconnect", func(ctx context.Context) error {
		return k.StartDisconnect(ctx, nil, func(_ []byte, err error) { outcome <- err })
	})
	kit.Equal(t, "messages of Disconnect whose context has ended", texts(g.sync("after Disconnect")), "DREQ")
	inState(t, k, cm.StateDREQSent, "after Disconnect whose context has ended")
	d := &mad.DREP{LocalCommID: k.theirs, RemoteCommID: k.ours}
	copy(d.PrivateData[:], private('d', mad.DREPPrivateLen))
	g.send(1, d)
	e := event(t, k, cm.EventDisconnected, "event after the DREP")
	kit.SameBytes(t, "private data of the event after the DREP", e.Private, d.PrivateData[:])
	inState(t, k, cm.StateTimeWait, "after the DREP")

	if !t.Claims().Has(ci.CapAPM) {
		return
	}
	k = g.open()
	g.sync("on the way to Established")
	propose := func(ctx context.Context) error {
		return k.StartLoadAlternate(ctx, cm.AlternateConfig{Path: g.there.path(g.here)},
			func(_ *mad.APR, err error) { outcome <- err })
	}
	cancelled("cm.Conn.StartLoadAlternate", propose)
	g.settledIn(k, cm.StateEstablished)
	l, m := expect[*mad.LAP](g.script, "LAP")
	g.send(m.TID, apr(l, mad.APRLoaded)) // too late
	kit.Equal(t, "messages after a late APR", texts(g.sync("after a late APR")), nothing)
	x := &end{End: g.y.End, side: g.there, Conn: k}
	x.loadsNone("after a proposal whose context has ended")
	kit.OK(t, propose(t.Context()), "cm.Conn.StartLoadAlternate after one whose context has ended")
	l2, m2 := expect[*mad.LAP](g.script, "second LAP")
	kit.True(t, m2.TID != m.TID, "transaction ID of the second LAP", "another one", "%#x", m2.TID)
	g.send(m.TID, apr(l, mad.APRRejected)) // too late
	g.send(m2.TID, apr(l2, mad.APRLoaded))
	kit.OK(t, g.await(&linked{outcome: outcome}), "outcome of the second LAP")
	x.loads(g.there.path(g.here).AV, attributesTimeout(t, x))
	for _, late := range []mad.CMMessage{apr(l2, mad.APRRejected), g.message(k, "MRA of LAP")} {
		g.send(m2.TID, late)
		kit.Equal(t, "messages after a late answer", texts(g.sync("after a late answer")), nothing)
		x.loads(g.there.path(g.here).AV, attributesTimeout(t, x))
	}
	kit.OK(t, propose(t.Context()), "cm.Conn.StartLoadAlternate after late answers")
	expect[*mad.LAP](g.script, "third LAP")
	// The connection ends meanwhile.
	g.with(k, "DREQ")
	err := g.await(&linked{outcome: outcome})
	kit.True(t, errors.Is(err, cm.ErrClosed), "outcome of a LAP of a connection that ends", "cm.ErrClosed", "%v", err)
	last := private('e', mad.DREQPrivateLen)
	got, err := k.Disconnect(t.Context(), last)
	kit.OK(t, err, "cm.Conn.Disconnect after a DREQ")
	kit.Equal(t, "private data of the DREP of a peer that has sent a DREQ", len(got), 0)
	drep, m := expect[*mad.DREP](g.script, "DREP")
	kit.SameBytes(t, "private data of the DREP", drep.PrivateData[:mad.DREQPrivateLen], last)
	kit.Equal(t, "transaction ID of the DREP", m.TID, k.tidOf("DREQ"))
	inState(t, k, cm.StateTimeWait, "after the DREP")
}

// settledIn waits until a call that has ended has reached its last state.
func (g *rig) settledIn(k *linked, want cm.State) {
	for k.State() != want {
		g.sync("until the state of a connection")
	}
}

// attributesTimeout returns the ACK timeout of the primary path, which those of other paths to the same peer equal.
func attributesTimeout(t *validate.T, x *end) ci.TimeExp {
	_, a, err := x.QPAttr(ci.QPRTS)
	kit.OK(t, err, "cm.Conn.QPAttr for RTS")
	return a.Primary.AckTimeout
}
