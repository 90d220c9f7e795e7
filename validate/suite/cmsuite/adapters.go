package cmsuite

import (
	"context"
	"slices"
	"sync"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Adapters with other capabilities and limits than the one under test.
var adapters = area()

// altered stands between the access layer and the driver, and changes the attributes that the driver reports.
type altered struct {
	mu     sync.Mutex
	change func(*ci.CAAttr)
}

type alteredCA struct {
	ciwrap.CA
	d *altered
}

func (c alteredCA) Query() (*ci.CAAttr, error) {
	a, err := c.CA.Query()
	if err != nil {
		return nil, err
	}
	b := *a
	b.Ports = slices.Clone(a.Ports)
	for i := range b.Ports {
		b.Ports[i].PKeys = slices.Clone(a.Ports[i].PKeys)
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.change(&b)
	return &b, nil
}

// alteredSides is sides with other attributes of the adapter under test.
func alteredSides(t *validate.T, change func(*ci.CAAttr)) (a, b *side) {
	a, b, _ = changingSides(t, change)
	return a, b
}

// changingSides is alteredSides with attributes that a case changes.
func changingSides(t *validate.T, change func(*ci.CAAttr)) (a, b *side, d *altered) {
	ha, hb := t.Pair()
	if _, ok := ha.(Host); ok {
		t.Skip("the manager is in another process, and no case can change the attributes of its adapter")
	}
	d = &altered{change: change}
	wrapped := ciwrap.Wrap(ha, ciwrap.Layer{CA: func(c ci.CA) ci.CA { return alteredCA{ciwrap.CA{CA: c}, d} }})
	return newSide(t, wrapped), newSide(t, hb), d
}

var CMAdapter01 = adapters.Must("CM-Adapter-01", "IBTA 12.8", "cm, ConnectConfig.Alternate, Conn.LoadAlternate, Accept",
	"A manager of an adapter that does not migrate paths proposes no alternate path, and answers each alternate path "+
		"as not supported, whatever the consumer asks for.")

var _ = adapters.Case(validate.Case{
	ID:    "cm.adapter.migration",
	Title: "alternate paths at an adapter that does not migrate paths",
	Run:   adapterMigration,
}, CMAdapter01)

func adapterMigration(t *validate.T) {
	a, b := alteredSides(t, func(a *ci.CAAttr) { a.Caps &^= ci.CapAPM })
	g := newRigOn(a, b)
	path := a.path(b)
	cfg := g.y.request(b, nil)
	cfg.Alternate = &path
	err := g.m.StartConnect(t.Context(), cfg, func(cm.Conn, error) {})
	kit.WantExactly(t, err, "cm.Service.StartConnect with an alternate path", ci.Unsupported)
	kit.Equal(t, "messages after a call that failed", texts(g.sync("after a call that failed")), nothing)

	k := g.open()
	err = k.StartLoadAlternate(t.Context(), cm.AlternateConfig{Path: path}, func(*mad.APR, error) {})
	kit.WantExactly(t, err, "cm.Conn.StartLoadAlternate", ci.Unsupported)
	kit.Equal(t, "messages after a call that failed", texts(g.sync("after a call that failed")), "RTU")
	inState(t, k, cm.StateEstablished, "after a call that failed")

	for _, v := range kit.Variants(t, "", []struct {
		name         string
		hasAlternate bool
		want         mad.Failover
	}{{"with an alternate path", true, mad.FailoverNotSupported}, {"without one", false, mad.FailoverAccepted}}) {
		k := g.requestWith(func(q *mad.REQ) {
			if v.hasAlternate {
				q.Alternate = otherPort(q.Primary)
			}
		})
		kit.Equal(t, "alternate path of a request "+v.name, k.Request().Alternate != nil, v.hasAlternate)
		accept := g.y.acceptance(nil)
		accept.Failover = mad.FailoverAccepted
		kit.OK(t, k.StartAccept(t.Context(), accept, func(error) {}), "cm.Conn.StartAccept")
		r, _ := expect[*mad.REP](g.script, "REP")
		kit.Equal(t, "failover in the REP to a request "+v.name, r.Failover, v.want)
		g.with(k, "RTU")
		(&end{End: g.y.End, side: a, Conn: k}).loadsNone("at an adapter that does not migrate paths")
		l := &mad.LAP{LocalCommID: k.theirs, RemoteCommID: k.ours, RemoteQPN: uint32(g.y.Num()), RemoteTimeout: 18,
			Alternate: otherPort(k.req.Primary)}
		g.send(5, l)
		apr, m := expect[*mad.APR](g.script, "APR")
		kit.Equal(t, "status of the APR", apr.Status, mad.APRUnsupported)
		kit.Equal(t, "transaction ID of the APR", m.TID, 5)
	}
}

var CMAdapter02 = adapters.Must("CM-Adapter-02", "IBTA 12.7.28", "cm, Conn.QPAttr, ConnectConfig, AcceptConfig",
	"The depths of REQs, REPs and QPs are at most those of the adapter. A REQ of a transport service that the adapter "+
		"does not have is rejected. Paths and REPs have the acknowledgement delay of the adapter.")

var _ = adapters.Case(validate.Case{
	ID:    "cm.adapter.limits",
	Title: "an adapter with small limits and without UC",
	Run:   adapterLimits,
}, CMAdapter02)

func adapterLimits(t *validate.T) {
	const resources, depth, delay = 3, 2, 13
	a, b := alteredSides(t, func(a *ci.CAAttr) {
		a.Caps &^= ci.CapUC
		a.MaxRespResPerQP, a.MaxInitDepthPerQP, a.AckDelay = resources, depth, delay
	})
	g := newRigOn(a, b)
	k := g.connectWith(func(c *cm.ConnectConfig) {
		c.ResponderResources, c.InitiatorDepth, c.Primary.LifeTime = 9, 9, 0
	})
	kit.Equal(t, "depths of the REQ", [2]uint8{k.req.ResponderRes, k.req.InitiatorDepth}, [2]uint8{resources, depth})
	kit.Equal(t, "ACK timeout of the REQ", k.req.Primary.AckTimeout, delay)
	g.send(k.tid, &mad.REJ{RemoteCommID: k.ours, Reason: mad.RejConsumer})
	_ = refused(t, g.await(k), mad.RejConsumer)

	uc := g.newREQ()
	uc.Service = mad.ServiceUC
	g.send(6, uc)
	rej, _ := expect[*mad.REJ](g.script, "answer to a REQ for UC")
	kit.Equal(t, "reason for a REQ for UC", rej.Reason, mad.RejInvalidTransport)

	for _, v := range kit.Variants(t, "", []struct{ ask, offer, want [2]uint8 }{ // responder resources, depth
		{[2]uint8{9, 9}, [2]uint8{9, 9}, [2]uint8{resources, depth}},
		{[2]uint8{9, 9}, [2]uint8{1, 1}, [2]uint8{1, 1}},
		{[2]uint8{1, 1}, [2]uint8{9, 9}, [2]uint8{1, 1}},
		{[2]uint8{2, 0}, [2]uint8{9, 9}, [2]uint8{0, 2}},
		{[2]uint8{0, 2}, [2]uint8{9, 9}, [2]uint8{2, 0}},
	}) {
		k := g.requestWith(func(q *mad.REQ) { q.ResponderRes, q.InitiatorDepth = v.ask[0], v.ask[1] })
		e := &end{End: g.y.End, side: a, Conn: k}
		_, rtr := e.attrOf(ci.QPRTR)
		_, rts := e.attrOf(ci.QPRTS)
		kit.Equal(t, "depths of the QP before the REP", [2]uint8{rtr.RespRes, rts.InitDepth},
			[2]uint8{min(v.ask[1], resources), min(v.ask[0], depth)})
		cfg := g.y.acceptance(nil)
		cfg.ResponderResources, cfg.InitiatorDepth = v.offer[0], v.offer[1]
		ctx, cancel := context.WithCancel(t.Context())
		kit.OK(t, k.StartAccept(ctx, cfg, func(error) {}), "cm.Conn.StartAccept")
		r, _ := expect[*mad.REP](g.script, "REP")
		kit.Equal(t, "depths of the REP", [2]uint8{r.ResponderRes, r.InitiatorDepth}, v.want)
		kit.Equal(t, "target ACK delay of the REP", r.TargetAckDelay, delay)
		_, rts = e.attrOf(ci.QPRTS)
		kit.Equal(t, "initiator depth of the QP after the REP", rts.InitDepth, v.want[1])
		cancel()
		end, _ := expect[*mad.REJ](g.script, "REJ after the context has ended")
		kit.Equal(t, "reason after the context has ended", end.Reason, mad.RejTimeout)
	}
}
