package cmsuite

import (
	"context"
	"slices"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Managers, their ports and their connections.
var managers = area()

var CMManager01 = managers.Must("CM-Manager-01", "CI access layer", "cm, New, Manager.Conns",
	"A port has one manager: a second one fails with ResourceBusy and leaves the first as it is, and can start when "+
		"that is closed. A manager lists its connections.")

var _ = managers.Case(validate.Case{
	ID:    "cm.manager.second",
	Title: "two managers of one adapter, and the list of connections",
	Run:   managerSecond,
}, CMManager01)

func managerSecond(t *validate.T) {
	a, b := sides(t)
	l := a.local()
	_, err := cm.New(nil, l.mads, cm.Config{})
	kit.WantExactly(t, err, "cm.New without an access layer", ci.InvalidParameter)
	_, err = cm.New(a.al, nil, cm.Config{})
	kit.WantExactly(t, err, "cm.New without MAD services", ci.InvalidParameter)
	y, _ := newEnds(a, b, kit.Type(ci.RC))
	m := a.managerWith(cm.Config{})
	g := &rig{script: newScript(t, b, a), y: y, m: m, l: listen(t, m, cm.ListenConfig{})}
	for range 2 {
		_, err = l.start(cm.Config{})
		kit.WantExactly(t, err, "second cm.New", ci.ResourceBusy)
	}
	kit.Equal(t, "connections of a new manager", len(m.Conns()), 0)
	asked, open := g.request(), g.open()
	g.sync("after the connections")
	asking := g.connect()
	kit.True(t, asking.tid != open.tid, "transaction IDs of two requests", "two", "%#x twice", open.tid)
	k := g.request()
	kit.OK(t, k.Handoff(service), "cm.Conn.Handoff")
	again := accepted(t, g.l)
	want := []cm.ConnInfo{
		{ID: asked.ID(), RemoteID: asked.theirs, State: cm.StateREQRcvd},
		{ID: open.ID(), RemoteID: open.theirs, State: cm.StateEstablished, Active: true},
		{ID: asking.ours, State: cm.StateREQSent, Active: true},
		{ID: again.ID(), RemoteID: k.theirs, State: cm.StateREQRcvd},
	}
	slices.SortFunc(want, func(a, b cm.ConnInfo) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	got := m.Conns()
	kit.Equal(t, "connections of the manager", len(got), len(want))
	for i := range want {
		kit.Equal(t, "connection of the manager", got[i], want[i])
	}
	g.send(asking.tid, &mad.REJ{RemoteCommID: asking.ours, Reason: mad.RejConsumer})
	_ = refused(t, g.await(asking), mad.RejConsumer)
	kit.Equal(t, "connections after one was rejected", len(m.Conns()), len(want)-1)
	kit.OK(t, m.Close(), "cm.Service.Close")
	kit.Equal(t, "connections of a manager that is closed", len(m.Conns()), 0)
	m = a.managerWith(cm.Config{})
	g.sync("after the start of a manager")
	g.m, g.l = m, listen(t, m, cm.ListenConfig{})
	next := g.request()
	for _, c := range want {
		kit.True(t, next.ID() != c.ID, "communication ID of the next manager", "none of the first one", "%#x", c.ID)
	}
	kit.OK(t, next.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
	kit.Equal(t, "messages of the next manager", texts(g.sync("after Reject")), "REJ of REQ, consumer reject")
	last := g.connect()
	kit.True(t, last.tid != open.tid, "first transaction ID of the next manager", "not that of the first one", "%#x",
		last.tid)
}

var CMManager02 = managers.Must("CM-Manager-02", "CI access layer", "cm, Manager; accesslayer, AL.Register, Deregister",
	"A manager serves the ports of adapters that come later, and no more those of adapters that were removed.")

var _ = managers.Case(validate.Case{
	ID:    "cm.manager.removal",
	Title: "an adapter that is removed and comes back",
	Run:   managerRemoval,
}, CMManager02)

func managerRemoval(t *validate.T) {
	a, b := sides(t)
	a.local()
	m := a.managerWith(cm.Config{})
	p := newScript(t, b, a)
	path := cm.LookupConfig{Service: service, Path: a.path(b)}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	lookup := func() error { return m.StartLookup(ctx, path, func(*cm.LookupReply, error) {}) }
	register := func() { // the access layer notifies the manager afterwards
		kit.OK(t, a.al.Register(a.hca), "Registrar.Register")
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for lookup() != nil && t.Context().Err() == nil {
			<-tick.C
		}
	}
	kit.OK(t, lookup(), "cm.Service.StartLookup")
	expect[*mad.SIDRREQ](p, "SIDR_REQ")
	a.remove()
	kit.WantExactly(t, lookup(), "cm.Service.StartLookup on a port of an adapter that was removed", ci.InvalidPort)
	register()
	expect[*mad.SIDRREQ](p, "SIDR_REQ of an adapter that came back")
	kit.OK(t, m.Close(), "cm.Service.Close")
	kit.OK(t, a.al.Deregister(a.hca.Info().GUID), "AL.Deregister")
	m = a.managerWith(cm.Config{}) // the manager that is closed takes no port
	register()
	expect[*mad.SIDRREQ](p, "SIDR_REQ of the next manager")
}

var CMAdapter03 = adapters.Must("CM-Adapter-03", "IBTA 10.9.1", "cm, Conn.QPAttr, AlternateAttr",
	"When a port has lost the partition of a connection, the attributes of the connection fail with InvalidPKey, and "+
		"a LAP is rejected. When it has the partition at another place, the attributes name that place.")

var _ = adapters.Case(validate.Case{
	ID:    "cm.adapter.partition",
	Title: "a port that loses a partition, and has it again",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   adapterPartition,
}, CMAdapter03)

func adapterPartition(t *validate.T) {
	const key = ci.PKey(0xffff)
	tables := map[string][]ci.PKey{"first": {0xffff}, "none": {0x8001}, "second": {0x8001, 0xffff},
		"both":  {0xffff, 0x8001},
		"moved": {0xffff, 0x8002, 0x8001}}
	var table []ci.PKey
	a, b, d := changingSides(t, func(attr *ci.CAAttr) {
		for i := range attr.Ports {
			if table != nil {
				attr.Ports[i].PKeys = slices.Clone(table)
			}
		}
	})
	if !slices.Contains(t.Attr().Ports[0].PKeys, key) {
		t.Skip("the port does not have the default partition")
	}
	g := newRigOn(a, b)
	k := g.requestWith(func(q *mad.REQ) { q.PKey = uint16(key); q.Alternate = otherPort(q.Primary) })
	x := &end{End: g.y.End, side: a, Conn: k}
	accept := g.y.acceptance(nil)
	accept.Failover = mad.FailoverAccepted
	kit.OK(t, k.StartAccept(t.Context(), accept, func(error) {}), "cm.Conn.StartAccept")
	g.with(k, "RTU")
	adapter, err := a.al.Adapter(a.port.CA)
	kit.OK(t, err, "AL.Adapter")
	change := func(name string) {
		d.mu.Lock()
		table = tables[name]
		d.mu.Unlock()
		adapter.Poll()
		// Messages that are on the way while the table changes may be lost.
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !slices.Equal(adapter.Attr().Ports[0].PKeys, tables[name]) {
			select {
			case <-tick.C:
			case <-t.Context().Done():
				t.Failf("AL.Adapter.Attr after Poll", "the P_Keys "+name, "%v", adapter.Attr().Ports[0].PKeys)
			}
		}
	}
	lap := func(tid uint64) string {
		l := &mad.LAP{LocalCommID: k.theirs, RemoteCommID: k.ours, RemoteQPN: uint32(g.y.Num()), RemoteTimeout: 18,
			Alternate: otherPort(k.req.Primary)}
		l.Alternate.LocalGID[14] ^= 5
		g.send(tid, l)
		return texts(g.sync("after a LAP"))
	}
	index := func(want uint16) {
		_, init := x.attrOf(ci.QPInit)
		_, rts := x.attrOf(ci.QPRTS)
		_, alt, err := x.AlternateAttr()
		kit.OK(t, err, "cm.Conn.AlternateAttr")
		kit.Equal(t, "indexes of the P_Key", [3]uint16{init.Primary.PKeyIndex, rts.Alternate.PKeyIndex,
			alt.Alternate.PKeyIndex}, [3]uint16{want, want, want})
	}
	change("first")
	index(0)
	change("second")
	index(1)
	change("none")
	for _, s := range []ci.QPState{ci.QPInit, ci.QPRTR, ci.QPRTS} {
		_, _, err := k.QPAttr(s)
		kit.WantExactly(t, err, "cm.Conn.QPAttr without the partition, for "+s.String(), ci.InvalidPKey)
		kit.WantExactly(t, cm.Modify(g.y.End.QP, k, s, 0), "cm.Modify without the partition", ci.InvalidPKey)
	}
	_, _, err = k.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr without the partition", ci.InvalidPKey)
	kit.Equal(t, "messages after a LAP without the partition", lap(1), "APR, status "+mad.APRRejected.String())
	kit.WantExactly(t, k.AnswerAlternate(mad.APRLoaded, nil, nil), "cm.Conn.AnswerAlternate of a LAP that was rejected",
		ci.InvalidState)
	q := g.newREQ()
	q.PKey = uint16(key)
	g.send(1, q)
	kit.Equal(t, "messages after a REQ without the partition", texts(g.sync("after a REQ")),
		"REJ of REQ, "+mad.RejUnsupported.String())
	change("second")
	index(1)
	kit.Equal(t, "messages after a LAP with the partition", lap(2), nothing)
	kit.OK(t, k.AnswerAlternate(mad.APRLoaded, nil, nil), "cm.Conn.AnswerAlternate")
	index(1)

	g.sync("after the last LAP")

	// An active end whose alternate path has another partition than its primary path.
	change("both")
	active := g.connectWith(func(c *cm.ConnectConfig) {
		other := c.Primary
		c.Primary.PKey, other.PKey = key, 0x8001
		c.Alternate = &other
	})
	active.rep.Failover = mad.FailoverAccepted
	g.send(active.tid, active.rep)
	kit.OK(t, g.await(active), "cm.Service.StartConnect")
	x.Conn = active
	x.attrOf(ci.QPRTS)
	change("first")
	x.attrOf(ci.QPRTR)
	_, _, err = active.QPAttr(ci.QPRTS)
	kit.WantExactly(t, err, "cm.Conn.QPAttr without the partition of the alternate path", ci.InvalidPKey)
	_, _, err = active.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr without the partition of the alternate path", ci.InvalidPKey)
	change("moved")
	_, rts := x.attrOf(ci.QPRTS)
	kit.Equal(t, "index of the P_Key of the alternate path", rts.Alternate.PKeyIndex, 2)
}
