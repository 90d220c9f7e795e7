package cmsuite

import (
	"errors"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var CMCall04 = callers.Must("CM-Call-04", "CI access layer",
	"cm, ConnectConfig.OnEvent, AcceptConfig.OnEvent, Notifier",
	"A function for events receives each event of its connection once and in order, one at a time, with the results "+
		"of calls between them. Next returns none of them.")

var (
	_ = callers.Case(validate.Case{
		ID:    "cm.call.events",
		Title: "events of connections that have a function for them",
		Run:   callEvents,
	}, CMCall04)
	_ = callers.Case(validate.Case{
		ID:    "cm.call.early",
		Title: "a connection before the peer's REP, as its function for events sees it",
		Run:   callEarly,
	}, CMCall04)
	_ = callers.Case(validate.Case{
		ID:    "cm.call.events-next",
		Title: "events that Next returns",
		Run:   callNext,
	}, CMCall04)
)

// next waits for what a function for events, or for the result of a call, has reported.
func (g *rig) next(c chan string, where, want string) {
	select {
	case got := <-c:
		kit.Equal(g.t, where, got, want)
	case <-g.t.Context().Done():
		g.t.Failf(where, want, "nothing by the deadline")
	}
}

// mra sends an MRA with private data.
func (g *rig) mra(k *linked, which mad.CMWhich, data string) {
	a := &mad.MRA{LocalCommID: k.theirs, RemoteCommID: k.ours, Message: which, ServiceTimeout: reactTime}
	copy(a.PrivateData[:], data)
	g.send(k.tid, a)
	kit.Equal(g.t, "messages after an MRA", texts(g.sync("after an MRA")), nothing)
}

func callEvents(t *validate.T) {
	statesAtOnce(t)
	g := newRig(t)
	for _, how := range kit.Variants(t, "", []string{"AcceptConfig", "Notify", "ConnectConfig"}) {
		got := make(chan string, 20)
		gate := make(chan struct{}, 20) // lets one event pass
		began := make(chan string, 20)
		onEvent := func(c cm.Conn, e cm.Event) {
			began <- "a call"
			select {
			case <-gate:
			case <-t.Context().Done():
			}
			got <- fmt.Sprintf("%v %.1q of %08x", e.Type, e.Private, c.ID())
		}
		pass := func(n int) {
			for range n {
				gate <- struct{}{}
			}
		}
		var k *linked
		if how == "ConnectConfig" {
			k = g.connectWith(func(c *cm.ConnectConfig) { c.OnEvent = onEvent })
			g.mra(k, mad.WhichREQ, "1")
			g.send(k.tid, k.rep)
			pass(1)
			g.next(got, "first event of the active end", fmt.Sprintf("delayed %.1q of %08x", "1", k.ours))
			kit.OK(t, g.await(k), "cm.Service.StartConnect")
			kit.OK(t, k.Confirm(nil), "cm.Conn.Confirm")
			g.sync("after Confirm")
		} else {
			k = g.request()
			cfg := g.y.acceptance(nil)
			if how == "Notify" {
				n, ok := k.Conn.(cm.Notifier)
				if !ok {
					continue // a manager in another process need not have it
				}
				n.Notify(onEvent)
				n.Notify(func(cm.Conn, cm.Event) { got <- "an event for the second function" })
				cfg.OnEvent = func(cm.Conn, cm.Event) { got <- "an event for the third function" }
			} else {
				cfg.OnEvent = onEvent
			}
			err := k.StartAccept(t.Context(), cfg, func(err error) { got <- fmt.Sprintf("accepted, error %v", err) })
			kit.OK(t, err, "cm.Conn.StartAccept")
			g.sync("after StartAccept")
			// The other MRAs arrive while the function is busy with the first one.
			g.mra(k, mad.WhichREP, "1")
			g.next(began, "call of the function for events", "a call")
			g.mra(k, mad.WhichREP, "2")
			g.mra(k, mad.WhichREP, "3") // replaces the second one
			u := &mad.RTU{LocalCommID: k.theirs, RemoteCommID: k.ours}
			copy(u.PrivateData[:], "4")
			for range 2 {
				g.send(k.tid, u)
			}
			kit.Equal(t, "messages after RTUs", texts(g.sync("after RTUs")), nothing)
			pass(1)
			g.next(got, "first event", fmt.Sprintf("delayed %.1q of %08x", "1", k.ours))
			pass(1)
			g.next(got, "second event", fmt.Sprintf("delayed %.1q of %08x", "3", k.ours))
			g.next(got, "result of Accept", "accepted, error <nil>")
			pass(1)
			g.next(got, "event after the RTU", fmt.Sprintf("established %.1q of %08x", "4", k.ours))
		}
		ctx, cancel := deadline(t, soon())
		_, err := k.Next(ctx)
		cancel()
		kit.True(t, errors.Is(err, ctx.Err()) && err != nil, "cm.Conn.Next of a connection with a function for events",
			"the context's error", "%v", err)
		d, _ := g.message(k, "DREQ").(*mad.DREQ)
		copy(d.PrivateData[:], "5")
		g.send(k.tidOf("DREQ"), d)
		kit.Equal(t, "messages after a DREQ", texts(g.sync("after a DREQ")), nothing)
		err = k.StartDisconnect(t.Context(), nil,
			func(_ []byte, err error) { got <- fmt.Sprintf("ended, error %v", err) })
		kit.OK(t, err, "cm.Conn.StartDisconnect")
		kit.Equal(t, "messages after StartDisconnect", texts(g.sync("after StartDisconnect")), "DREP")
		pass(1)
		g.next(got, "event after a DREQ", fmt.Sprintf("disconnect %.1q of %08x", "5", k.ours))
		g.next(got, "result of Disconnect", "ended, error <nil>")
		pass(1)
		g.next(got, "event after the DREP", fmt.Sprintf("disconnected %.1q of %08x", "", k.ours))
		kit.Equal(t, "further events", len(got), 0)
	}
}

func callEarly(t *validate.T) {
	statesAtOnce(t)
	g := newRig(t)
	type early struct {
		cm.Conn
		event cm.Event
	}
	seen := make(chan early, 1)
	k := g.connectWith(func(c *cm.ConnectConfig) {
		c.OnEvent = func(c cm.Conn, e cm.Event) { seen <- early{c, e} }
	})
	g.mra(k, mad.WhichREQ, "more time")
	var c early
	select {
	case c = <-seen:
	case <-t.Context().Done():
		t.Failf("events before the REP", cm.EventDelayed.String(), "none by the deadline")
	}
	kit.Equal(t, "event after an MRA", c.event.Type, cm.EventDelayed)
	kit.SameBytes(t, "private data of the event after an MRA", c.event.Private[:9], []byte("more time"))
	inState(t, c, cm.StateREPWait, "after an MRA")
	x := &end{End: g.y.End, side: g.there, Conn: c}
	x.starts(k.req.PKey)
	for _, s := range []ci.QPState{ci.QPRTR, ci.QPRTS} {
		_, _, err := c.QPAttr(s)
		kit.WantExactly(t, err, "cm.Conn.QPAttr before the REP, for "+s.String(), ci.InvalidState)
	}
	_, _, err := c.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr before the REP", ci.InvalidState)
	kit.True(t, c.Reply() == nil, "cm.Conn.Reply before the REP", "nil", "%+v", c.Reply())
	kit.Equal(t, "time-wait before the REP", c.TimeWait(), 0)
	kit.Equal(t, "communication IDs", [2]uint32{c.ID(), c.RemoteID()}, [2]uint32{k.ours, k.theirs})
	kit.Equal(t, "request", c.Request().REQ, *k.req)
	for _, v := range verbs {
		kit.WantExactly(t, v.call(x, g.script, nil), "cm.Conn."+v.name+" before the REP", ci.InvalidState)
	}
	kit.Equal(t, "messages after calls that failed", texts(g.sync("after calls that failed")), nothing)
	g.send(k.tid, k.rep)
	kit.OK(t, g.await(k), "cm.Service.StartConnect")
	q, r := k.Request(), k.Reply()
	q.ServiceID, r.LocalQPN = 1, 1 // copies
	kit.Equal(t, "request after a change of its copy", k.Request().REQ, *k.req)
	kit.Equal(t, "reply after a change of its copy", *k.Reply(), *k.rep)
	_, rtr := x.attrOf(ci.QPRTR)
	kit.Equal(t, "destination QP", rtr.DestNum, ci.QPN(k.rep.LocalQPN))

	// Close during Connect ends the call.
	k = g.connectWith(func(c *cm.ConnectConfig) {
		c.OnEvent = func(c cm.Conn, e cm.Event) { kit.OK(t, c.Close(), "cm.Conn.Close before the REP") }
	})
	g.send(k.tid, g.message(k, "MRA of REQ"))
	err = g.await(k)
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Service.StartConnect whose Conn was closed", "cm.ErrClosed",
		"%v", err)
	rej, m := expect[*mad.REJ](g.script, "REJ of a Conn that was closed")
	kit.Equal(t, "reason", rej.Reason, mad.RejTimeout)
	kit.Equal(t, "message", rej.Message, mad.WhichREQ)
	kit.Equal(t, "transaction ID", m.TID, k.tid)
}

func callNext(t *validate.T) {
	statesAtOnce(t)
	g := newRig(t)
	k := g.answered()
	expects := func(want cm.EventType, data string) cm.Event {
		ctx, cancel := wait(t)
		defer cancel()
		e, err := k.Next(ctx)
		kit.OK(t, err, "cm.Conn.Next")
		kit.Equal(t, "next event", e.Type, want)
		if data != "" {
			kit.SameBytes(t, "private data of the event "+want.String(), e.Private[:len(data)], []byte(data))
		}
		return e
	}
	none := func(where string) {
		ctx, cancel := deadline(t, soon())
		defer cancel()
		e, err := k.Next(ctx)
		kit.True(t, err != nil, "further events "+where, "none", "%v", e.Type)
	}
	g.sync("after StartAccept")
	g.mra(k, mad.WhichREP, "1")
	g.mra(k, mad.WhichREP, "2")
	expects(cm.EventDelayed, "2")
	none("after an MRA")
	g.mra(k, mad.WhichREP, "3")
	expects(cm.EventDelayed, "3")
	waiting := result(t, "cm.Conn.Next", k.Next) // begins before the event
	kit.OK(t, k.Established(), "cm.Conn.Established")
	kit.OK(t, k.Established(), "second cm.Conn.Established")
	u := &mad.RTU{LocalCommID: k.theirs, RemoteCommID: k.ours}
	copy(u.PrivateData[:], "first")
	g.send(k.tid, u)
	e, err := waiting()
	kit.OK(t, err, "cm.Conn.Next that waits")
	kit.Equal(t, "event of the RTU", e.Type, cm.EventEstablished)
	kit.SameBytes(t, "private data of the RTU", e.Private[:5], []byte("first"))
	g.send(k.tid, u)
	g.sync("after another RTU")
	none("after another RTU")
	rej, _ := g.message(k, "REJ").(*mad.REJ)
	copy(rej.PrivateData[:], "reject")
	g.send(k.tid, rej)
	e = expects(cm.EventRejected, "reject")
	var r *cm.RejectError
	kit.True(t, errors.As(e.Err, &r) && r.Reason == mad.RejConsumer, "cause of the event", "consumer reject",
		"%v", e.Err)
	closing := result(t, "cm.Conn.Next", k.Next)
	kit.OK(t, k.Close(), "cm.Conn.Close")
	_, err = closing()
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Conn.Next during Close", "cm.ErrClosed", "%v", err)
}
