package smasuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Requests that arrive at QP0 from another port of the link.
var routes = linkArea()

// linkArea returns an empty area whose cases need a second adapter with QP0.
func linkArea() *validate.Area {
	return &validate.Area{Complete: func(c *validate.Case) {
		complete(c)
		c.Needs.Caps |= ci.CapSpecialQP | ci.CapAV
		c.Needs.HCAs = 2
	}}
}

const wireVerb = "QP0; ci_local_mad (65)"

var _ = routes.Add("sma.link.lid", "all bytes of responses to requests by LID from another port", func(t *validate.T) {
	l := link(t)
	for _, attr := range kit.Variants(t, "attribute", readable) {
		q := l.smp(mad.Get, attr, 0)
		want := *q
		want.Method = mad.GetResp
		want.Data = l.do(l.directed(mad.Get, attr), mad.StatusDirection).Data
		l.sameMAD(l.do(q, mad.StatusOK), want)
	}
}, routes.Must("SMA-Link-01", "IBTA 14.2.1.1", wireVerb,
	"A request by LID that arrives at QP0 is answered to the LID that it came from, with all 256 bytes defined."))

// sameMAD compares all bytes of a response except its M_Key, which has no meaning there.
func (l *linked) sameMAD(got, want mad.SMP) {
	var a, b ci.MAD
	want.MKey = got.MKey
	got.Put(a[:])
	want.Put(b[:])
	kit.SameBytes(l.t, "response to "+name(&want), a[:], b[:])
}

var _ = routes.Add("sma.link.directed",
	"all bytes of responses to directed routes that end at the port", func(t *validate.T) {
		l := link(t)
		for _, attr := range kit.Variants(t, "attribute", readable) {
			q := l.directed(mad.Get, attr)
			want := *q
			want.Method, want.Status = mad.GetResp, mad.StatusDirection
			want.SetHops(l.way.lastPointer(), l.way.hops())
			want.ReturnPath = l.way.in
			want.Data = l.do(l.smp(mad.Get, attr, 0), mad.StatusOK).Data
			l.sameMAD(l.do(q, mad.StatusDirection), want)
		}
		q := l.directed(mad.Set, mad.AttrNodeInfo)
		l.do(q, mad.StatusDirection|mad.StatusBadMethodAttribute)
		if l.way.hasSMI {
			return // such routes begin, and their responses end, at the manager's adapter, which takes them
		}
		if !l.peer.ca.Port.HardwareAgents { // such an adapter takes the response, which ends at none of its ports
			l.lastByLID()
		}
		t.Step("a route without hops, by LID")
		q = l.directed(mad.Get, mad.AttrNodeInfo)
		q.SetHops(0, 0)
		q.DrSLID = uint16(l.peer.ca.Port.LID)
		want := *q
		want.Method, want.Status = mad.GetResp, mad.StatusDirection
		want.Data = l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK).Data
		l.sameMAD(l.do(q, mad.StatusDirection), want)
	}, routes.Must("SMA-Link-02", "IBTA 14.2.2.3", wireVerb,
		"A directed route that ends at the port is answered along the way back: with the direction bit, the hop "+
			"pointer of the last hop, and the port in the return path."))

// lastByLID checks the response to a directed route that ends with a part by LID: it begins with that part, too.
func (l *linked) lastByLID() {
	l.t.Step("a route whose last part is by LID")
	q, _ := l.afterHops(9)
	q.Method, q.Attribute = mad.Get, mad.AttrNodeInfo
	var in ci.MAD
	q.Put(in[:])
	l.peer.sendTo(l.peer.lid, &in)
	out, ok := l.peer.take(l.t.Remaining(), isResponse(q.TID))
	kit.True(l.t, ok, "response to "+name(q)+" with a last part by LID", "a response", "none")
	back := *q
	back.Method, back.Status = mad.GetResp, mad.StatusDirection
	back.Data = l.do(l.smp(mad.Get, mad.AttrNodeInfo, 0), mad.StatusOK).Data
	var r mad.SMP
	r.Parse(out[:])
	l.sameMAD(r, back)
}

var _ = routes.Add("sma.link.hops", "directed routes that do not end at the port", func(t *validate.T) {
	l := link(t)
	type hops struct{ pointer, count uint8 }
	n := l.route().hops()
	list := []hops{{1, n + 1}, {n + 2, n}, {255, n}, {1, 64}, {64, 64}, {255, 255}, {63, n}}
	if !l.way.hasSMI && n == 1 { // otherwise this is the beginning of a route, which does not arrive as it is
		list = append(list, hops{0, 1})
	}
	for _, v := range kit.Variants(t, "", list) {
		q := l.directed(mad.Get, mad.AttrNodeInfo)
		q.SetHops(v.pointer, v.count)
		for i := int(n) + 1; i < len(q.InitialPath); i++ {
			q.InitialPath[i] = l.way.in[n] // leads back
		}
		l.unanswered(q, fmt.Sprintf("a directed route with hop pointer %d of %d", v.pointer, v.count))
	}
	t.Step("a part by LID after the last hop")
	for _, lid := range []uint16{uint16(l.peer.lid), 0xff00, 0x00ff} {
		q := l.directed(mad.Get, mad.AttrNodeInfo)
		q.DrDLID = lid
		l.unanswered(q, fmt.Sprintf("a directed route that goes on by LID %#x", lid))
	}
	if n > 1 {
		for _, port := range []uint8{0, 0x80, 0xfe, 0xff} {
			q := l.directed(mad.Get, mad.AttrNodeInfo)
			q.InitialPath[n] = port
			l.unanswered(q, fmt.Sprintf("a directed route out of port %d of the switch", port))
		}
		return // a switch takes a route that has ended
	}
	q := l.directed(mad.Get, mad.AttrNodeInfo)
	q.SetHops(n+1, n)
	q.ReturnPath = l.way.in
	l.do(q, mad.StatusDirection)
	q = l.directed(mad.Get, mad.AttrNodeInfo)
	q.SetHops(n+1, n)
	q.ReturnPath = l.way.in
	q.ReturnPath[n]++
	l.unanswered(q, "a directed route whose return path leads out of another port")
}, routes.Must("SMA-Link-03", "IBTA 14.2.2.2", wireVerb,
	"A directed route whose hop pointer or hop count is out of range, or that goes on beyond an adapter, is "+
		"dropped."))

// unanswered sends a request that must not be answered.
func (l *linked) unanswered(q *mad.SMP, what string) {
	r, answered := l.try(q)
	kit.True(l.t, !answered, "response to "+what, "none", "status %v", mad.Status(r.Status))
}

var _ = routes.Add("sma.link.sm-info", "Get and Set of SMInfo", func(t *validate.T) {
	l := link(t)
	l.do(l.smp(mad.Get, mad.AttrSMInfo, 0), mad.StatusBadMethodAttribute)
	l.do(l.smp(mad.Set, mad.AttrSMInfo, mad.SMHandover), mad.StatusBadMethodAttribute)
}, routes.Must("SMA-Link-04", "IBTA 14.4.1", wireVerb,
	"A port without a subnet manager answers SMInfo with status 0x000c."))

var _ = routes.Add("sma.link.once", "count the responses to requests", func(t *validate.T) {
	l := link(t)
	q := l.smp(mad.Get, mad.AttrNodeInfo, 0)
	l.do(q, mad.StatusOK)
	_, again := l.peer.take(late, isResponse(q.TID))
	kit.True(t, !again, "responses to "+name(q), "one", "two")
}, routes.Must("SMA-Link-05", "SAS 2.1", "ci_local_mad (65); PortAttr.HardwareAgents",
	"Each request that arrives at QP0 is answered once, by the adapter or by the kit."))

var _ = routes.Add("sma.link.flood", "2000 requests without a pause", func(t *validate.T) {
	l := link(t)
	for i := range 2000 {
		var m ci.MAD
		q := l.smp(mad.Get, mad.AttrNodeInfo, 0)
		if i%3 == 1 {
			q.Class, q.ClassSpecific = mad.ClassSubnetDirected, uint16(t.Rand().Uint32())
		}
		q.Put(m[:])
		if i%3 == 2 {
			binary.BigEndian.PutUint16(m[16:], uint16(t.Rand().Uint32()))
		}
		l.peer.send(&m)
	}
	answered := await(t, func() bool { // the agent may have a queue of requests to work on
		l.peer.list = nil
		return l.peer.asks(l.smp(mad.Get, mad.AttrNodeInfo, 0))
	})
	kit.True(t, answered, "response to a request after the flood", "a response", "none")
}, routes.Must("SMA-Link-06", "IBTA 13.4.5", wireVerb,
	"After a flood of requests, those that follow are answered."))

var _ = routes.Add("sma.link.alone", "a request to a port whose QP0 nobody has created", func(t *validate.T) {
	p := &port{t: t, ca: kit.Open(t), tid: firstTID}
	p.peer = newPeer(t, p.ca, ci.QP0)
	has := t.Attr().HasHardwareAgents(p.ca.Port.Num)
	ask := func() bool { return p.peer.asks(p.smp(mad.Get, mad.AttrNodeInfo, 0)) }
	got := ask() || has && await(t, ask)
	kit.Equal(t, "response to a request without the kit, for a claim of PortAttr.HardwareAgents", got, has)
}, routes.Must("SMA-Link-07", "SAS 2.1", "PortAttr.HardwareAgents",
	"An adapter answers a request that arrives at a port by itself if and only if it claims agents for the port."))
