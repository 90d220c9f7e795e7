package cmsuite

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Alternate paths of requests, and those that the peer proposes.
var alternates = area()

// otherPort returns a path of the peer from another port, and its ACK timeout.
func otherPort(p mad.CMPath) mad.CMPath {
	p.LocalGID[15] ^= 0x40
	if p.SubnetLocal {
		p.LocalLID ^= 0x40
	}
	p.AckTimeout = 16
	return p
}

// loads expects that the attributes of the connection load and arm a path.
func (e *end) loads(want ci.AVAttr, timeout ci.TimeExp) {
	t := e.side.t
	const fields = ci.QPFieldAlternate | ci.QPFieldAPM
	set, attr, err := e.AlternateAttr()
	kit.OK(t, err, "cm.Conn.AlternateAttr")
	kit.Equal(t, "fields of cm.Conn.AlternateAttr", set, fields)
	kit.Equal(t, "address of the alternate path", attr.Alternate.AV, want)
	kit.Equal(t, "ACK timeout of the alternate path", attr.Alternate.AckTimeout, timeout)
	kit.Equal(t, "migration state", attr.APM, ci.APMRearm)
	set, rts, err := e.QPAttr(ci.QPRTS)
	kit.OK(t, err, "cm.Conn.QPAttr for RTS")
	kit.Equal(t, "fields of an alternate path in cm.Conn.QPAttr for RTS", set&fields, fields)
	kit.Equal(t, "alternate path in cm.Conn.QPAttr for RTS", rts.Alternate, attr.Alternate)
}

// loadsNone expects that the connection has no alternate path.
func (e *end) loadsNone(when string) {
	t := e.side.t
	_, _, err := e.AlternateAttr()
	kit.WantExactly(t, err, "cm.Conn.AlternateAttr "+when, ci.InvalidState)
	set, _, err := e.QPAttr(ci.QPRTS)
	kit.OK(t, err, "cm.Conn.QPAttr for RTS "+when)
	kit.Equal(t, "fields of an alternate path in cm.Conn.QPAttr for RTS "+when,
		set&(ci.QPFieldAlternate|ci.QPFieldAPM), 0)
}

var CMPath01 = alternates.Must("CM-Path-01", "IBTA 12.6.8", "cm, Request.Alternate, AcceptConfig.Failover",
	"The consumer receives the alternate path of a REQ, and the REP has its answer. If it accepts the path, the "+
		"attributes of the connection load the path.")

var _ = alternates.Case(validate.Case{
	ID:    "cm.alternate.request",
	Title: "REQs with an alternate path, which the consumer accepts and rejects",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   alternateRequest,
}, CMPath01)

func alternateRequest(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	for i, answer := range kit.Variants(t, "failover", []mad.Failover{mad.FailoverAccepted, mad.FailoverRejected}) {
		tid := uint64(0x1000 + i)
		q := p.req(service, 0x321+ci.QPN(i))
		q.Alternate = otherPort(q.Primary)
		p.send(tid, q)
		y.Conn = accepted(t, l)
		got := y.Request()
		kit.True(t, got.Alternate != nil, "alternate path of the request", "a path", "none")
		changed := y.Request()
		changed.Alternate.AV.DLID ^= 1 // a copy
		kit.Equal(t, "alternate path after a change of its copy", *y.Request().Alternate, *got.Alternate)
		kit.Equal(t, "GID of the alternate path", got.Alternate.AV.GRH.DGID, ci.GID(q.Alternate.LocalGID))
		if q.Alternate.SubnetLocal {
			kit.Equal(t, "LID of the alternate path", got.Alternate.AV.DLID, ci.LID(q.Alternate.LocalLID))
		}
		_, _, err := y.AlternateAttr()
		kit.WantExactly(t, err, "cm.Conn.AlternateAttr before the answer", ci.InvalidState)
		cfg := y.acceptance(nil)
		cfg.Failover = answer
		awaitAccept := result(t, "cm.Conn.Accept",
			func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, cfg) })
		r, _ := expect[*mad.REP](p, "REP")
		kit.Equal(t, "failover in the REP", r.Failover, answer)
		p.send(tid, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID})
		_, err = awaitAccept()
		kit.OK(t, err, "cm.Conn.Accept")
		if answer == mad.FailoverAccepted {
			y.loads(got.Alternate.AV, 16)
		} else {
			y.loadsNone("after the path was rejected")
		}
	}
	q := p.req(service, 0x421)
	q.Alternate = otherPort(q.Primary)
	q.Alternate.RemoteGID[15] ^= 0x55
	p.send(0x2000, q)
	rej, _ := expect[*mad.REJ](p, "answer to a REQ whose alternate path leads elsewhere")
	kit.Equal(t, "reason for an alternate path that leads elsewhere", rej.Reason, mad.RejAlternateGID)
}

var CMPath02 = alternates.Must("CM-Path-02", "IBTA 12.6.5", "cm, ConnectConfig.Alternate",
	"A REQ carries the alternate path that the consumer set. If the peer accepts it, the attributes of the connection "+
		"load the path.")

var _ = alternates.Case(validate.Case{
	ID:    "cm.alternate.connect",
	Title: "requests with an alternate path, which the peer accepts and rejects",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   alternateConnect,
}, CMPath02)

func alternateConnect(t *validate.T) {
	g := newCrossing(t)
	for _, answer := range kit.Variants(t, "failover", []mad.Failover{mad.FailoverAccepted, mad.FailoverNotSupported,
		mad.FailoverRejected}) {
		other := g.there.path(g.here)
		other.AV.GRH.DGID[15] ^= 0x40
		if !other.AV.Global {
			other.AV.DLID ^= 0x40
		}
		g.begin(func(c *cm.ConnectConfig) { c.Peer, c.Alternate = false, &other })
		alt, primary := &g.own.Alternate, &g.own.Primary
		kit.Equal(t, "remote GID of the alternate path", ci.GID(alt.RemoteGID), other.AV.GRH.DGID)
		kit.Equal(t, "local GID of the alternate path", alt.LocalGID, primary.LocalGID)
		kit.Equal(t, "local LID of the alternate path", alt.LocalLID, primary.LocalLID)
		if !other.AV.Global {
			kit.Equal(t, "remote LID of the alternate path", ci.LID(alt.RemoteLID), other.AV.DLID)
		}
		g.n++
		r := g.rep(g.own, 0x400+g.n)
		r.Failover = answer
		g.send(g.tid, r)
		var err error
		g.x.Conn, err = g.await()
		kit.OK(t, err, "cm.Service.Connect")
		if answer == mad.FailoverAccepted {
			set, attr, err := g.x.QPAttr(ci.QPRTS)
			kit.OK(t, err, "cm.Conn.QPAttr for RTS")
			kit.Equal(t, "fields of an alternate path", set&ci.QPFieldAlternate, ci.QPFieldAlternate)
			// Both paths have the same life time, and the peer has one delay.
			g.x.loads(other.AV, attr.Primary.AckTimeout)
		} else {
			g.x.loadsNone("after the peer has rejected the path")
		}
		kit.OK(t, g.x.Confirm(nil), "cm.Conn.Confirm")
		expect[*mad.RTU](g.script, "RTU")
	}
}

var CMPath03 = alternates.Must("CM-Path-03", "IBTA 12.8.1", "cm, Conn.AnswerAlternate, Delay, Migrated",
	"A LAP that the consumer accepts is answered as loaded, and its path is loaded by the attributes of the "+
		"connection until the QP has migrated. Copies are not reported again. A path that the connection has, or that "+
		"leads elsewhere, is rejected without the consumer.")

var _ = alternates.Case(validate.Case{
	ID:    "cm.alternate.load",
	Title: "the peer proposes paths, and the QP migrates",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   alternateLoad,
}, CMPath03)

func alternateLoad(t *validate.T) {
	y, p, q, r := ending(t, nil)
	g := &rig{script: p}
	lap := func(change func(*mad.CMPath)) *mad.LAP {
		l := &mad.LAP{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID, RemoteQPN: r.LocalQPN,
			RemoteTimeout: 18, Alternate: otherPort(q.Primary)}
		if change != nil {
			change(&l.Alternate)
		}
		return l
	}
	answered := func(tid uint64, l *mad.LAP, where string, want mad.APRStatus) {
		p.send(tid, l)
		a, m := expect[*mad.APR](p, "answer to "+where)
		kit.Equal(t, "status of the answer to "+where, a.Status, want)
		kit.Equal(t, "transaction ID of the answer to "+where, m.TID, tid)
		kit.Equal(t, "communication IDs of the answer to "+where, [2]uint32{a.LocalCommID, a.RemoteCommID},
			[2]uint32{r.LocalCommID, q.LocalCommID})
	}
	y.loadsNone("before a proposal")
	kit.WantExactly(t, y.Migrated(), "cm.Conn.Migrated without an alternate path", ci.InvalidState)
	answered(1, lap(func(c *mad.CMPath) { *c = q.Primary }), "a LAP with the primary path", mad.APRDuplicatePath)
	answered(2, lap(func(c *mad.CMPath) { c.RemoteGID[15] ^= 0x55 }), "a LAP to a GID that the port does not have",
		mad.APRInvalidGID)

	l := lap(nil)
	p.send(3, l)
	e := event(t, y, cm.EventAlternate, "event after a LAP")
	kit.True(t, e.Path != nil && e.Path.AV.GRH.DGID == ci.GID(l.Alternate.LocalGID), "path in the event",
		"the proposed path, as seen from this end", "%+v", e.Path)
	p.send(3, l)
	kit.Equal(t, "messages after a copy of the LAP", texts(g.sync("after a copy of the LAP")), nothing)
	kit.OK(t, y.Delay(20, private('m', mad.MRAPrivateLen)), "cm.Conn.Delay of the LAP")
	expectMRA(p, mad.WhichLAP, r.LocalCommID, q.LocalCommID)
	p.send(3, l)
	expectMRA(p, mad.WhichLAP, r.LocalCommID, q.LocalCommID)
	kit.OK(t, y.AnswerAlternate(mad.APRLoaded, nil, private('a', mad.APRPrivateLen)), "cm.Conn.AnswerAlternate")
	a, m := expect[*mad.APR](p, "APR")
	kit.Equal(t, "status of the APR", a.Status, mad.APRLoaded)
	kit.Equal(t, "transaction ID of the APR", m.TID, 3)
	kit.SameBytes(t, "private data of the APR", a.PrivateData[:], private('a', mad.APRPrivateLen))
	kit.WantExactly(t, y.AnswerAlternate(mad.APRLoaded, nil, nil), "second cm.Conn.AnswerAlternate", ci.InvalidState)
	y.loads(e.Path.AV, 16)
	answered(4, lap(nil), "a LAP with the alternate path", mad.APRDuplicatePath)
	ctx, cancel := deadline(t, soon())
	again, err := y.Next(ctx)
	cancel()
	for err == nil && again.Type == cm.EventEstablished { // from the establishment
		ctx, cancel = deadline(t, soon())
		again, err = y.Next(ctx)
		cancel()
	}
	kit.True(t, err != nil, "events after copies of the LAP, and after LAPs that the manager answers", "none", "%v",
		again.Type)
	y.loads(e.Path.AV, 16)

	kit.OK(t, y.Migrated(), "cm.Conn.Migrated")
	kit.Equal(t, "primary path after the migration", y.Request().Primary, *e.Path)
	y.loadsNone("after the migration")
	kit.WantExactly(t, y.Migrated(), "second cm.Conn.Migrated", ci.InvalidState)
	inState(t, y, cm.StateEstablished, "after the migration")
}
