package cmsuite

import (
	"errors"

	"ciddk/accesslayer/cm"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Connections that their consumer closes, in every state.
var closes = area()

var (
	CMClose01 = closes.Must("CM-Close-01", "CI access layer", "cm, Conn.Close",
		"Close ends a connection as its state requires: it rejects, disconnects, or answers the peer's DREQ. No event "+
			"and no further call follows, and a second Close has no effect.")
	CMClose02 = closes.Must("CM-Close-02", "IBTA 12.9.8.4", "cm, Conn.Close",
		"A connection in time-wait answers copies of the peer's messages, also after its consumer has closed it.")
	CMClose03 = closes.Must("CM-Close-03", "CI access layer", "cm, Service.Close",
		"A manager that closes ends each of its connections as Close does, and each request that it has sent with a "+
			"REJ. Calls that wait end with ErrClosed.")
)

// closing returns what Close sends in a state, and the state after it.
func closing(name string) reaction {
	switch name {
	case "REQRcvd", "MRAREQSent":
		return reaction{"REJ of REQ, consumer reject", cm.StateTimeWait}
	case "REPSent", "MRAREPRcvd", "REPRcvd", "MRAREPSent":
		return reaction{"REJ of REP, consumer reject", cm.StateTimeWait}
	case "Established":
		return reaction{"DREQ", cm.StateDREQSent}
	case "DREQSent":
		return reaction{nothing, cm.StateDREQSent}
	case "DREQRcvd":
		return reaction{"DREP", cm.StateTimeWait}
	}
	return reaction{nothing, cm.StateTimeWait}
}

var (
	_ = closes.Case(validate.Case{
		ID:    "cm.close.passive",
		Title: "Close in every state of the passive end",
		Run:   func(t *validate.T) { closeIn(t, passivePlaces) },
	}, CMClose01)
	_ = closes.Case(validate.Case{
		ID:    "cm.close.active",
		Title: "Close in every state of the active end",
		Run:   func(t *validate.T) { closeIn(t, activePlaces) },
	}, CMClose01)
)

func closeIn(t *validate.T, places []reactPlace) {
	statesAtOnce(t)
	g := newRig(t)
	for _, p := range kit.Variants(t, "state", places) {
		k := p.reach(g)
		g.sync("on the way to state " + p.name)
		inState(t, k, p.state, "before Close")
		want := closing(p.name)
		kit.OK(t, k.Close(), "cm.Conn.Close")
		where := "messages after Close in state " + p.name
		list := g.sync(where)
		kit.Equal(t, where, texts(list), want.sends)
		for _, m := range list {
			tid := k.tid
			if _, ok := m.msg.(*mad.DREP); ok {
				tid = k.tidOf("DREQ")
			}
			g.checkIDs(k, m, tid)
		}
		inState(t, k, want.state, "after Close in state "+p.name)
		_, err := k.Next(t.Context())
		kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Conn.Next after Close in state "+p.name, "cm.ErrClosed",
			"%v", err)
		kit.OK(t, k.Close(), "second cm.Conn.Close")
		kit.Equal(t, "messages after a second Close", texts(g.sync("after a second Close")), nothing)
		inState(t, k, want.state, "after a second Close")
	}
}

// closedPlaces are connections in time-wait whose consumer has closed them, before or after they came there.
func closedPlaces(places []reactPlace) []reactPlace {
	closed := func(g *rig, k *linked) *linked { return g.do(k, "cm.Conn.Close", k.Close) }
	var list []reactPlace
	for _, p := range places {
		if p.state == cm.StateTimeWait {
			list = append(list, reactPlace{p.name + ", closed", cm.StateTimeWait,
				func(g *rig) *linked { return closed(g, p.reach(g)) }, p.react})
		}
	}
	at := func(name string) reactPlace {
		for _, p := range places {
			if p.name == name {
				return p
			}
		}
		panic("no state " + name)
	}
	// The REJ of Close is repeated as that of Reject is, and the DREP of Close as that of AnswerDisconnect is.
	for _, p := range places {
		like := map[string]string{"REQRcvd": "TimeWait after Reject", "REPRcvd": "TimeWait after Reject",
			"DREQRcvd": "TimeWait"}[p.name]
		if like != "" {
			list = append(list, reactPlace{p.name + ", closed", cm.StateTimeWait,
				func(g *rig) *linked { return closed(g, p.reach(g)) }, at(like).react})
		}
	}
	list = append(list, reactPlace{"DREQSent, closed", cm.StateTimeWait, func(g *rig) *linked {
		return g.with(closed(g, at("DREQSent").reach(g)), "DREP")
	}, at("TimeWait").react})
	return list
}

var (
	_ = closes.Case(validate.Case{
		ID:    "cm.close.copies-passive",
		Title: "every message to the passive end in time-wait after Close",
		Run:   func(t *validate.T) { copiesAfterClose(t, passivePlaces, false) },
	}, CMClose02)
	_ = closes.Case(validate.Case{
		ID:    "cm.close.copies-active",
		Title: "every message to the active end in time-wait after Close",
		Run:   func(t *validate.T) { copiesAfterClose(t, activePlaces, true) },
	}, CMClose02)
)

func copiesAfterClose(t *validate.T, places []reactPlace, isActive bool) {
	statesAtOnce(t)
	g := newRig(t)
	for _, p := range closedPlaces(places) {
		p.each(t, g, isActive)
	}
	if isActive {
		return
	}
	k := g.request() // a REJ that ends with zeros
	kit.OK(t, k.Reject(0, nil, nil), "cm.Conn.Reject with reason 0")
	kit.OK(t, k.Close(), "cm.Conn.Close")
	first := g.sync("after Close")
	for range 2 {
		g.send(k.tid, k.req)
		again := g.sync("after a copy of the REQ")
		kit.Equal(t, "messages after a copy of the REQ", texts(again), texts(first))
		g.checkIDs(k, again[0], k.tid)
	}
}

var _ = closes.Case(validate.Case{
	ID:    "cm.close.manager",
	Title: "a manager closes with connections in every state",
	Run:   closeManager,
}, CMClose03)

func closeManager(t *validate.T) {
	g := newRig(t)
	want := map[uint32]string{}
	var list []*linked
	for _, places := range [][]reactPlace{passivePlaces, activePlaces} {
		for _, p := range places {
			k := p.reach(g)
			g.sync("on the way to state " + p.name)
			inState(t, k, p.state, "before Close")
			if s := closing(p.name).sends; s != nothing {
				want[k.ours] = s
			}
			list = append(list, k)
		}
	}
	asking := g.connect()
	want[asking.ours] = "REJ of REQ, timeout"
	delayed := g.with(g.connect(), "MRA of REQ")
	want[delayed.ours] = want[asking.ours]
	accepting := g.answered()
	g.sync("on the way to state REPSent")
	want[accepting.ours] = "REJ of REP, consumer reject"
	looking := make(chan error, 1)
	err := g.m.StartLookup(t.Context(), cm.LookupConfig{Service: service, Path: g.there.path(g.here)},
		func(_ *cm.LookupReply, err error) { looking <- err })
	kit.OK(t, err, "cm.Service.StartLookup")
	expect[*mad.SIDRREQ](g.script, "SIDR_REQ")
	waiting := g.newREQ() // for Accept
	g.send(77, waiting)
	g.sync("after a REQ that waits for Accept")

	kit.OK(t, g.m.Close(), "cm.Service.Close")
	other := ""
	for n := len(want) + 1; n > 0; n-- {
		m := g.recv("messages of a manager that closes")
		ours, theirs := commIDs(m.msg)
		if s, ok := want[ours]; ok {
			kit.Equal(t, "message for a connection of a manager that closes", texts([]message{m}), s)
			delete(want, ours)
			continue
		}
		kit.Equal(t, "remote communication ID of a message for a REQ that waits for Accept", theirs,
			waiting.LocalCommID)
		other += texts([]message{m})
	}
	kit.Equal(t, "connections without a message", len(want), 0)
	kit.Equal(t, "message for a REQ that waits for Accept", other, "REJ of REQ, invalid service ID")
	g.quiet("after the end of a manager", nil)
	for _, k := range list {
		inState(t, k, cm.StateClosed, "after the end of the manager")
	}
	for _, outcome := range []chan error{asking.outcome, delayed.outcome, looking} {
		err := g.await(&linked{outcome: outcome})
		kit.True(t, errors.Is(err, cm.ErrClosed), "outcome of a call of a manager that closes", "cm.ErrClosed",
			"%v", err)
	}
	kit.OK(t, g.m.Close(), "second cm.Service.Close")
	x := g.y.request(g.here, nil)
	for where, err := range map[string]error{
		"Service.StartConnect": g.m.StartConnect(t.Context(), x, func(cm.Conn, error) {}),
		"Service.StartLookup": g.m.StartLookup(t.Context(),
			cm.LookupConfig{Service: service, Path: x.Primary}, func(*cm.LookupReply, error) {}),
		"Listener.StartAccept": g.l.StartAccept(t.Context(), func(cm.Conn, error) {}),
	} {
		kit.True(t, errors.Is(err, cm.ErrClosed), "cm."+where+" of a manager that is closed", "cm.ErrClosed", "%v", err)
	}
	_, err = g.m.Connect(t.Context(), x)
	kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Service.Connect of a manager that is closed", "cm.ErrClosed",
		"%v", err)
}
