package cmsuite

import (
	"context"
	"fmt"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// What the messages of a connection say of paths, and the attributes of the QPs that follow from them.
var attributes = area()

// attrOf returns the attributes for a state.
func (e *end) attrOf(to ci.QPState) (ci.QPField, ci.QPAttr) {
	set, a, err := e.QPAttr(to)
	kit.OK(e.side.t, err, "cm.Conn.QPAttr for "+to.String())
	kit.Equal(e.side.t, "state in cm.Conn.QPAttr", a.State, to)
	return set, a
}

// starts checks the attributes for Init.
func (e *end) starts(key uint16) {
	t := e.side.t
	set, a := e.attrOf(ci.QPInit)
	kit.Equal(t, "fields of cm.Conn.QPAttr for Init", set, ci.QPFieldState|ci.QPFieldPort|ci.QPFieldPKeyIndex)
	kit.Equal(t, "port in cm.Conn.QPAttr for Init", a.Port, e.side.port.Num)
	kit.Equal(t, "P_Key in cm.Conn.QPAttr for Init", e.side.ca.Port.PKeys[a.Primary.PKeyIndex]&^memberBit,
		ci.PKey(key)&^memberBit)
	for _, s := range []ci.QPState{ci.QPReset, ci.QPSQD, ci.QPError} {
		_, _, err := e.QPAttr(s)
		kit.WantExactly(t, err, "cm.Conn.QPAttr for "+s.String(), ci.InvalidParameter)
	}
}

// least returns n, or the limit if that is less.
func least(n uint8, limit int) uint8 { return uint8(min(int(n), limit)) }

var CMAttr01 = attributes.Must("CM-Attr-01", "IBTA 12.7", "cm, Conn.QPAttr",
	"The attributes of the passive end's QP are those of the REQ: path, MTU, QP number, PSN, timeout, retry counts "+
		"and depths. The starting PSN of its peer, and its own depth, are those of the REP.")

var (
	_ = attributes.Case(validate.Case{
		ID:    "cm.attributes.passive",
		Title: "attributes of an RC QP that follow from a REQ and its REP",
		Run:   func(t *validate.T) { attributesPassive(t, ci.RC) },
	}, CMAttr01)
	_ = attributes.Case(validate.Case{
		ID:    "cm.attributes.passive-uc",
		Title: "attributes of a UC QP that follow from a REQ and its REP",
		Needs: validate.Needs{Caps: ci.CapUC},
		Run:   func(t *validate.T) { attributesPassive(t, ci.UC) },
	}, CMAttr01)
)

func attributesPassive(t *validate.T, typ ci.QPType) {
	a, b := sides(t)
	p := newScript(t, b, a)
	y, _ := newEnds(a, b, kit.Type(typ))
	l := listen(t, a.manager(), cm.ListenConfig{})
	ca := a.ca.Attr
	for i, ack := range kit.Variants(t, "ACK timeout", []mad.TimeExp{17, 1, 31}) {
		q := p.req(service, 0x321+ci.QPN(i))
		if typ == ci.UC {
			q.Service = mad.ServiceUC
		}
		q.StartingPSN, q.RetryCount, q.RNRRetryCount = 0x123456, 5, 3
		q.InitiatorDepth, q.ResponderRes, q.PathMTU = 2, 3, mad.MTU256
		q.Primary.Rate, q.Primary.FlowLabel, q.Primary.TrafficClass = 4, 0x54321, 0x5a
		q.Primary.HopLimit, q.Primary.AckTimeout = 33, ack
		tid := uint64(0x1000 + i)
		p.send(tid, q)
		y.Conn = accepted(t, l)
		y.starts(q.PKey)
		set, r := y.attrOf(ci.QPRTR)
		kit.Equal(t, "destination QP", r.DestNum, ci.QPN(q.LocalQPN))
		kit.Equal(t, "path MTU", r.MTU, ci.MTU256)
		av := r.Primary.AV
		kit.Equal(t, "static rate", av.StaticRate, 4)
		kit.Equal(t, "GRH of the path", [3]uint32{av.GRH.FlowLabel, uint32(av.GRH.TrafficClass),
			uint32(av.GRH.HopLimit)}, [3]uint32{0x54321, 0x5a, 33})
		kit.Equal(t, "destination GID", av.GRH.DGID, ci.GID(q.Primary.LocalGID))
		kit.Equal(t, "source GID", a.ca.Port.GIDs[av.GRH.SGIDIndex].GID, ci.GID(q.Primary.RemoteGID))
		isIB := a.ca.Port.Link == ci.LinkInfiniBand
		kit.Equal(t, "Global of the path", av.Global, !isIB || !q.Primary.SubnetLocal)
		if isIB {
			kit.Equal(t, "destination LID", av.DLID, ci.LID(q.Primary.LocalLID))
		}
		setS, s := y.attrOf(ci.QPRTS)
		kit.Equal(t, "first PSN to send", s.SQPSN, 0x123456)
		fields, fieldsS := ci.QPFieldsRTR, ci.QPFieldsRTS
		if typ == ci.UC {
			fields, fieldsS = ci.QPFieldsUCRTR, ci.QPFieldsUCRTS
			kit.Equal(t, "responder resources of a UC QP", r.RespRes, 0)
		} else {
			kit.Equal(t, "responder resources", r.RespRes, least(2, ca.MaxRespResPerQP))
			kit.Equal(t, "ACK timeout", s.Primary.AckTimeout, ci.TimeExp(ack))
			kit.Equal(t, "retry counts", [2]uint8{s.RetryCount, s.RNRRetry}, [2]uint8{5, 3})
			kit.Equal(t, "initiator depth", s.InitDepth, least(3, ca.MaxInitDepthPerQP))
		}
		kit.Equal(t, "fields of cm.Conn.QPAttr for RTR and RTS", [2]ci.QPField{set, setS},
			[2]ci.QPField{fields, fieldsS})

		cfg := y.acceptance(nil)
		cfg.QP.StartPSN, cfg.RNRRetry = 0x654321, 2
		cfg.InitiatorDepth, cfg.ResponderResources = 1, 9
		awaitAccept := result(t, "cm.Conn.Accept",
			func(ctx context.Context) (struct{}, error) { return struct{}{}, y.Accept(ctx, cfg) })
		rep, _ := expect[*mad.REP](p, "REP")
		kit.Equal(t, "starting PSN of the REP", rep.StartingPSN, 0x654321)
		kit.Equal(t, "RNR retry count of the REP", rep.RNRRetryCount, 2)
		kit.Equal(t, "depths of the REP", [2]uint8{rep.InitiatorDepth, rep.ResponderRes},
			[2]uint8{least(1, ca.MaxInitDepthPerQP), least(2, ca.MaxRespResPerQP)})
		kit.Equal(t, "target ACK delay of the REP", rep.TargetAckDelay, mad.TimeExp(ca.AckDelay))
		p.send(tid, &mad.RTU{LocalCommID: q.LocalCommID, RemoteCommID: rep.LocalCommID})
		_, err := awaitAccept()
		kit.OK(t, err, "cm.Conn.Accept")
		_, r = y.attrOf(ci.QPRTR)
		kit.Equal(t, "first PSN to receive", r.RQPSN, 0x654321)
		if _, s = y.attrOf(ci.QPRTS); typ == ci.RC {
			kit.Equal(t, "initiator depth after the REP", s.InitDepth, least(1, ca.MaxInitDepthPerQP))
		}
	}
	q := p.req(service, 0x421)
	q.Primary.AckTimeout = 0 // no value, which must not disable the timeout
	if typ == ci.UC {
		q.Service = mad.ServiceUC
	}
	p.send(0x2000, q)
	y.Conn = accepted(t, l)
	if _, s := y.attrOf(ci.QPRTS); typ == ci.RC {
		kit.Equal(t, "ACK timeout for a REQ without one", s.Primary.AckTimeout, 1)
	}
}

var CMAttr02 = attributes.Must("CM-Attr-02", "IBTA 12.7", "cm, Conn.QPAttr, TimeWait",
	"The attributes of the active end's QP are those of the REP, within those of its REQ. The timeout is the exponent "+
		"nearest to two packet life times and the peer's delay, and time-wait lasts that long.")

var _ = attributes.Case(validate.Case{
	ID:    "cm.attributes.active",
	Title: "attributes that follow from a REP",
	Run:   attributesActive,
}, CMAttr02)

func attributesActive(t *validate.T) {
	g := newCrossing(t)
	ca := g.there.ca.Attr
	for _, v := range kit.Variants(t, "", []struct {
		name        string
		life, delay mad.TimeExp
		want        ci.TimeExp
	}{{"no delay", 15, 0, 16}, {"the same delay", 15, 15, 17}, {"twice the delay", 15, 16, 17},
		{"a long delay", 10, 20, 20}, {"a short life", 1, 1, 3}}) {
		g.begin(func(c *cm.ConnectConfig) {
			c.Peer, c.RetryCount, c.RNRRetry = false, 5, 2
			c.ResponderResources, c.InitiatorDepth = 3, 4
			c.Primary.LifeTime, c.Primary.MTU = v.life, ci.MTU256
		})
		q := g.own
		kit.Equal(t, "depths of the REQ", [2]uint8{q.ResponderRes, q.InitiatorDepth},
			[2]uint8{least(3, ca.MaxRespResPerQP), least(4, ca.MaxInitDepthPerQP)})
		kit.Equal(t, "path MTU of the REQ", q.PathMTU, mad.MTU256)
		g.n++
		r := g.rep(q, 0x400+g.n)
		r.StartingPSN, r.TargetAckDelay, r.RNRRetryCount = 0x13579b, v.delay, 4
		r.ResponderRes, r.InitiatorDepth = 2, 1
		g.send(g.tid, r)
		var err error
		g.x.Conn, err = g.await()
		kit.OK(t, err, "cm.Service.Connect")
		g.x.starts(q.PKey)
		set, a := g.x.attrOf(ci.QPRTR)
		setS, s := g.x.attrOf(ci.QPRTS)
		kit.Equal(t, "fields of cm.Conn.QPAttr for RTR and RTS", [2]ci.QPField{set, setS},
			[2]ci.QPField{ci.QPFieldsRTR, ci.QPFieldsRTS})
		kit.Equal(t, "destination QP", a.DestNum, ci.QPN(r.LocalQPN))
		kit.Equal(t, "path MTU", a.MTU, ci.MTU256)
		kit.Equal(t, "first PSN to receive", a.RQPSN, ci.PSN(q.StartingPSN))
		kit.Equal(t, "responder resources", a.RespRes, min(q.ResponderRes, r.InitiatorDepth))
		kit.Equal(t, "address of the path", a.Primary.AV, g.x.Conn.Request().Primary.AV)
		kit.Equal(t, "first PSN to send", s.SQPSN, 0x13579b)
		kit.Equal(t, "retry counts", [2]uint8{s.RetryCount, s.RNRRetry}, [2]uint8{5, 4})
		kit.Equal(t, "initiator depth", s.InitDepth, min(q.InitiatorDepth, r.ResponderRes))
		kit.Equal(t, "ACK timeout with "+v.name, s.Primary.AckTimeout, v.want)
		kit.Equal(t, "time-wait with "+v.name, g.x.TimeWait(), 2*v.life.Duration()+v.delay.Duration())
		kit.OK(t, g.x.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
		expect[*mad.REJ](g.script, "REJ of the REP")
	}
}

var CMAttr03 = attributes.Must("CM-Attr-03", "IBTA 12.7", "cm, Path",
	"The primary path of a REQ has the addresses and values of the consumer's path. A path that may leave the subnet "+
		"has permissive LIDs, and one without a GRH is local to the subnet.")

var _ = attributes.Case(validate.Case{
	ID:    "cm.attributes.path",
	Title: "paths within the subnet, and beyond it",
	Run:   attributesPath,
}, CMAttr03)

func attributesPath(t *validate.T) {
	g := newCrossing(t)
	port := g.there.ca.Port
	isIB := port.Link == ci.LinkInfiniBand
	for _, v := range kit.Variants(t, "", []struct {
		name           string
		global         bool
		hops, pathBits uint8
		isLocal        bool // SubnetLocal
		isRouted       bool // permissive LIDs
	}{
		{"no GRH", false, 64, 0, true, false},
		{"a GRH within the subnet", true, 1, 0, !isIB, false},
		{"a GRH without hops", true, 0, 0, !isIB, false},
		{"a GRH beyond the subnet", true, 2, 0, false, true},
		{"path bits", false, 64, 1<<port.LMC - 1, true, false},
	}) {
		if !isIB && !v.global {
			continue
		}
		var path cm.Path
		g.begin(func(c *cm.ConnectConfig) {
			c.Peer = false
			path = c.Primary
			path.AV.Global, path.AV.PathBits, path.AV.StaticRate = v.global, v.pathBits, 5
			path.AV.GRH.DGID = ci.GID(g.script.req(service, 0).Primary.LocalGID)
			path.AV.GRH.HopLimit, path.AV.GRH.FlowLabel, path.AV.GRH.TrafficClass = v.hops, 0xabcde, 0x17
			path.LifeTime = 14
			c.Primary = path
		})
		p := &g.own.Primary
		kit.Equal(t, "SubnetLocal", p.SubnetLocal, v.isLocal)
		want := [2]uint16{0xffff, 0xffff}
		if isIB && !v.isRouted {
			want = [2]uint16{uint16(port.LID) | uint16(v.pathBits), uint16(path.AV.DLID)}
		}
		kit.Equal(t, "LIDs", [2]uint16{p.LocalLID, p.RemoteLID}, want)
		kit.Equal(t, "GIDs", [2]ci.GID{p.LocalGID, p.RemoteGID},
			[2]ci.GID{port.GIDs[path.AV.GRH.SGIDIndex].GID, path.AV.GRH.DGID})
		kit.Equal(t, "flow label, traffic class, hop limit, rate and SL", fmt.Sprint(p.FlowLabel, p.TrafficClass,
			p.HopLimit, uint8(p.Rate), p.SL), fmt.Sprint(0xabcde, 0x17, v.hops, 5, 0))
		most := 2*path.LifeTime.Duration() + mad.TimeExp(g.there.ca.Attr.AckDelay).Duration()
		got := p.AckTimeout.Duration()
		kit.True(t, got > most/2 && got < 2*most, "ACK timeout", fmt.Sprintf("near %v", most), "%v", got)
		kit.Equal(t, "reserved bits", [3]uint8{p.ReservedFlow, p.ReservedSL, p.ReservedAck}, [3]uint8{})
		g.refuse(mad.RejConsumer)
		_, err := g.await()
		_ = refused(t, err, mad.RejConsumer)
	}
}
