package smasuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// A port in the states Down, Init and Armed, with traffic of all services (IBTA volume 1, 7.2.7).
var inactives = inactiveArea()

// inactiveArea returns an empty area whose cases send datagrams, too.
func inactiveArea() *validate.Area {
	a := linkArea()
	link := a.Complete
	a.Complete = func(c *validate.Case) {
		link(c)
		c.Needs.Caps |= ci.CapUD
	}
	return a
}

// A stage is a port whose state the case changes, and QP0 of a port that stays active.
type stage struct {
	*port
	far *peer
	smi *kit.End // QP0 of the port
}

// newStage opens both ports.
func newStage(t *validate.T) *stage {
	s := &stage{port: open(t)}
	defer t.Setup()()
	if s.far = s.peer; s.far == nil {
		s.far = newPeer(t, s.ca, ci.QP0)
	} else {
		s.route()
	}
	s.smi = specialEnd(t, s.ca, ci.QP0)
	for i := range numSlots {
		s.smi.Recv(s.smi.RecvWR(uint64(i), i*slotLen, slotLen))
	}
	return s
}

// pair returns connected QPs of both ports. A is at the port under test.
func (s *stage) pair(typ ci.QPType) *kit.Pair {
	c := kit.Options(s.ca, s.far.ca, kit.Type(typ))
	p := &kit.Pair{A: s.ca.End(c), B: s.far.ca.End(c)}
	p.Connect()
	return p
}

// gsi returns QP1 of both ports.
func (s *stage) gsi() *kit.Pair {
	p := &kit.Pair{A: specialEnd(s.t, s.ca, ci.QP1), B: specialEnd(s.t, s.far.ca, ci.QP1)}
	for _, x := range [][2]*kit.End{{p.A, p.B}, {p.B, p.A}} {
		e, to := x[0], x[1]
		av, err := e.PD.CreateAV(e.QP.CA.AddressOf(to.QP.CA))
		kit.OK(s.t, err, "PD.CreateAV")
		e.Dest = ci.Dest{AV: kit.Own(s.t, av, "AV"), QPN: to.Num(), QKey: e.Config.QKey}
	}
	return p
}

// unacknowledged returns a pair of each service that has no acknowledgements.
func (s *stage) unacknowledged() []*kit.Pair {
	pairs := []*kit.Pair{s.pair(ci.UD), s.gsi()}
	if s.t.Claims().Has(ci.CapUC) {
		pairs = append(pairs, s.pair(ci.UC))
	}
	return pairs
}

// enter takes the port down, waits until its link has trained again, and brings it up to a state. The other ports on
// the way to the peer become active.
func (s *stage) enter(state ci.PortState) {
	s.change(func(i *mad.PortInfo) { i.State = uint8(ci.PortDown) })
	s.awaitState(ci.PortInit)
	s.raiseOthers()
	s.rise(ci.PortInit, state)
}

// rise brings the port up from one state to another.
func (s *stage) rise(from, to ci.PortState) {
	for from++; from <= to; from++ {
		now := s.change(func(i *mad.PortInfo) { i.State = uint8(from) })
		kit.Equal(s.t, "PortInfo.PortState in the response to a Set", ci.PortState(now.State), from)
	}
}

// settle waits until what the peer has sent has arrived at the switch before the port, if there is one.
func (s *stage) settle() {
	if s.peer == nil || s.route().hops() < 2 {
		return
	}
	x := *s.route()
	x.out[x.n], x.in[x.n] = 0, 0
	x.n--
	var i mad.NodeInfo
	s.read(s.along(s.smp(mad.Get, mad.AttrNodeInfo, 0), &x), &i)
}

// raiseOthers makes the port at the other end of the link active, which went down with it: that of a switch, or the
// peer's.
func (s *stage) raiseOthers() {
	if s.peer != nil && s.route().hops() > 1 {
		x := *s.route()
		num := x.out[x.n]
		x.out[x.n], x.in[x.n] = 0, 0
		x.n--
		s.raise(func(method mad.Method) *mad.SMP {
			return s.along(s.smp(method, mad.AttrPortInfo, uint32(num)), &x)
		})
		return
	}
	a, err := s.far.ca.Query()
	kit.OK(s.t, err, "CA.Query of the peer")
	if a.Ports[s.far.ca.Port.Num-1].State == ci.PortActive {
		return // a link whose ends have states of their own
	}
	if s.peer == nil {
		far := &port{t: s.t, ca: s.far.ca, tid: firstTID}
		far.awaitState(ci.PortInit)
		(&stage{port: far}).rise(ci.PortInit, ci.PortActive)
		return
	}
	var start path
	s.raise(func(method mad.Method) *mad.SMP {
		q := s.along(s.smp(method, mad.AttrPortInfo, 0), &start)
		q.SetHops(0, 0)
		return q
	})
}

// raise brings up a port whose PortInfo requests along a directed route reach.
func (s *stage) raise(request func(mad.Method) *mad.SMP) {
	var i mad.PortInfo
	for {
		s.read(request(mad.Get), &i)
		switch ci.PortState(i.State) {
		case ci.PortActive:
			return
		case ci.PortInit, ci.PortArmed:
			i.State++
			i.PhysState = 0
			q := request(mad.Set)
			i.Put(q.Data[:])
			s.read(q, &i)
		}
		if s.t.Remaining() < late {
			s.t.Failf("port at the other end of the link", ci.PortActive.String(), "%v", ci.PortState(i.State))
		}
	}
}

// fence sends a datagram from QP0 of the port to QP0 of its peer and one back. What was sent before them has arrived
// then, or was discarded.
func (s *stage) fence(when string) {
	s.tid++
	tid := s.tid
	m := ci.MAD{0: mad.BaseVersion, 1: byte(mad.ClassSubnetLID), 2: mad.ClassVersionSubnet, 3: byte(mad.GetResp),
		14: byte(tid >> 8), 15: byte(tid)}
	for i := smpHeader; i < len(m); i++ {
		m[i] = byte(i)
	}
	here := &peer{t: s.t, ca: s.ca, end: s.smi, lid: s.far.ca.Port.LID, avs: map[ci.LID]ci.AV{}}
	for _, x := range []struct {
		from, to *peer
		way      string
	}{{here, s.far, "from QP0 of the port"}, {s.far, here, "to QP0 of the port"}} {
		var got ci.MAD
		ok := false
		for !ok && s.t.Remaining() > late { // datagrams may be lost
			x.from.send(&m)
			got, ok = x.to.take(late, isResponse(uint64(tid&0xffff)))
		}
		kit.True(s.t, ok, "datagram "+x.way+" "+when, "received", "nothing")
		kit.SameBytes(s.t, "datagram "+x.way+" "+when, got[:], m[:])
	}
}

// smpHeader is the length of the header of a subnet management datagram, including its M_Key.
const smpHeader = 32

// message sends n bytes, which arrive as the next message.
func message(t *validate.T, from, to *kit.End, n int, when string) {
	pad := 0
	if typ := from.Config.Type; typ == ci.UD || typ == ci.QP1 {
		pad = grhLen
	}
	from.Send(from.SendWR(lastID, 0, n))
	wc := to.RecvCQ.Wait(1)[0]
	kit.True(t, wc.Status == ci.WCSuccess && wc.Length == uint32(pad+n), fmt.Sprintf("first receive of %s %s",
		from.Config.Type, when), fmt.Sprintf("the message of %d bytes that was sent then", n), "%s",
		kit.Completions([]ci.WC{wc}))
	from.CQ.WaitOK(lastID)
}

// lastID identifies the send of message, and shortLen and longLen are the lengths of messages that must not arrive and
// of those that must.
const (
	lastID   = 77
	shortLen = 8
	longLen  = 32
)

// lose sends a message on each pair in one direction, none of which may arrive.
func (s *stage) lose(pairs []*kit.Pair, ends func(p *kit.Pair) (from, to *kit.End), when string) {
	for _, p := range pairs {
		from, to := ends(p)
		to.Recv(to.RecvWR(1, 0, 512))
		from.Send(from.SendWR(1, 0, shortLen))
		from.CQ.WaitOK(1)
	}
	s.fence(when)
	for _, p := range pairs {
		_, to := ends(p)
		to.RecvCQ.Empty()
	}
}

// arrives sends a message on each pair in one direction. It must be the next one that arrives.
func (s *stage) arrives(pairs []*kit.Pair, ends func(p *kit.Pair) (from, to *kit.End)) {
	for _, p := range pairs {
		from, to := ends(p)
		message(s.t, from, to, longLen, "when the port is active again")
	}
}

func outward(p *kit.Pair) (from, to *kit.End) { return p.A, p.B }
func inward(p *kit.Pair) (from, to *kit.End)  { return p.B, p.A }

var _ = inactives.Add("sma.state.send", "send from a port in Init and in Armed", func(t *validate.T) {
	s := newStage(t)
	pairs := s.unacknowledged()
	for _, state := range kit.Variants(t, "state", []ci.PortState{ci.PortInit, ci.PortArmed}) {
		s.enter(state)
		s.lose(pairs, outward, "in "+state.String())
		s.rise(state, ci.PortActive)
		s.arrives(pairs, outward)
	}
}, inactives.Must("SMA-State-01", "IBTA 7.2.7", "ci_post_send (55)",
	"A port in Init or Armed sends no data. Requests of services without acknowledgements complete, and their "+
		"packets are discarded."))

var _ = inactives.Add("sma.state.receive", "data arrives at a port in Init", func(t *validate.T) {
	s := newStage(t)
	pairs := s.unacknowledged()
	s.enter(ci.PortInit)
	s.lose(pairs, inward, "in Init")
	kit.Equal(t, "state after data has arrived in Init", ci.PortState(s.info().State), ci.PortInit)
	s.rise(ci.PortInit, ci.PortActive)
	s.arrives(pairs, inward)
}, inactives.Must("SMA-State-02", "IBTA 7.2.7", "ci_post_recv (56)", "A port in Init receives no data."))

var smaState03 = inactives.Must("SMA-State-03", "IBTA 7.2.7", "ci_post_recv (56)", "A port in Armed receives data.")

var smaState04 = inactives.Must("SMA-State-04", "IBTA 7.2.7", "ci_query_ca (4)",
	"The first data packet that arrives makes an armed port active.")

var _ = inactives.With(validate.Case{Checks: []string{smaState04.ID}}).Add("sma.state.armed",
	"data of each service arrives at a port in Armed", func(t *validate.T) {
		s := newStage(t)
		pairs := append(s.unacknowledged(), s.pair(ci.RC))
		for _, p := range pairs {
			s.enter(ci.PortArmed)
			p.A.Recv(p.A.RecvWR(1, 0, 512))
			message(t, p.B, p.A, longLen, "in Armed")
			t.Charge(smaState04.ID, func() { s.awaitState(ci.PortActive) })
		}
	}, smaState03, smaState04)

var _ = inactives.Add("sma.state.reliable", "post to a reliable connection in Init and in Armed", func(t *validate.T) {
	s := newStage(t)
	p := s.pair(ci.RC)
	p.B.Recv(p.B.RecvWR(1, 0, 64), p.B.RecvWR(2, 64, 64))
	want := p.A.Buf.Fill(t, 0, 128)
	s.enter(ci.PortInit)
	p.A.Send(p.A.SendWR(1, 0, 64))
	s.fence("in Init")
	p.B.RecvCQ.Empty()
	s.rise(ci.PortInit, ci.PortArmed)
	p.A.Send(p.A.SendWR(2, 64, 64))
	s.fence("in Armed")
	p.B.RecvCQ.Empty()
	s.rise(ci.PortArmed, ci.PortActive)
	p.A.CQ.WaitOK(1, 2)
	p.B.RecvCQ.WaitOK(1, 2)
	kit.SameBytes(t, "both messages", p.B.Buf.Bytes[:128], want)
}, inactives.Must("SMA-State-05", "IBTA 9.7.6.1.3", "ci_post_send (55)",
	"Requests of a reliable connection that are posted in Init or Armed are executed once the port is active."))

var _ = inactives.Add("sma.state.smp", "datagrams from and to QP0 in Init, Armed and Active", func(t *validate.T) {
	s := newStage(t)
	s.enter(ci.PortInit)
	for state := ci.PortInit; ; state++ {
		s.fence("in " + state.String())
		kit.Equal(t, "state after datagrams of QP0", ci.PortState(s.info().State), state)
		if state == ci.PortActive {
			return
		}
		s.rise(state, state+1)
	}
}, inactives.Must("SMA-State-06", "IBTA 7.2.7", "QP0", "QP0 sends and receives in Init, Armed and Active."))

var _ = inactives.Add("sma.state.verbs",
	"create, connect and use QPs while the port is in Init and in Armed", func(t *validate.T) {
		s := newStage(t)
		for _, state := range kit.Variants(t, "state", []ci.PortState{ci.PortInit, ci.PortArmed}) {
			s.enter(state)
			p, d := s.pair(ci.RC), s.pair(ci.UD)
			p.B.Recv(p.B.RecvWR(1, 0, 64))
			p.A.Send(p.A.SendWR(1, 0, 64))
			d.A.Send(d.A.SendWR(1, 0, shortLen))
			d.A.CQ.WaitOK(1)
			kit.OK(t, p.A.Modify(ci.QPFieldMinRNRTimer, ci.QPAttr{MinRNRTimer: 3}),
				"QP.Modify from RTS to RTS in "+state.String())
			p.A.WantState(ci.QPRTS)
			s.rise(state, ci.PortActive)
			p.A.CQ.WaitOK(1)
			p.B.RecvCQ.WaitOK(1)
			d.A.Exchange(d.B, 16)
		}
	}, inactives.Must("SMA-State-07", "IBTA 10.3.1", "ci_modify_qp (25)",
		"QPs are created and modified, and requests are posted, in each state of the port."))

var _ = inactives.Add("sma.state.down", "traffic while the cable is out", func(t *validate.T) {
	s := newStage(t)
	pairs := s.unacknowledged()
	t.SetLink(false)
	s.awaitAttr(ci.PortDown)
	for _, p := range pairs {
		for _, x := range [][2]*kit.End{{p.A, p.B}, {p.B, p.A}} {
			from, to := x[0], x[1]
			to.Recv(to.RecvWR(1, 0, 512))
			from.Send(from.SendWR(1, 0, shortLen))
		}
	}
	here := &peer{t: t, ca: s.ca, end: s.smi, lid: s.far.ca.Port.LID, avs: map[ci.LID]ci.AV{}}
	m := ci.MAD{0: mad.BaseVersion, 1: byte(mad.ClassSubnetLID), 2: mad.ClassVersionSubnet, 3: byte(mad.GetResp), 15: 9}
	here.send(&m)
	s.far.send(&m)
	for _, p := range pairs {
		p.A.CQ.WaitOK(1)
		p.B.CQ.WaitOK(1)
	}
	s.settle()
	t.SetLink(true)
	s.awaitAttr(ci.PortActive)
	s.fence("after Down")
	for _, x := range []struct {
		to  *peer
		way string
	}{{s.far, "from"}, {here, "to"}} {
		_, ok := x.to.take(0, isResponse(9))
		kit.True(t, !ok, "datagram "+x.way+" QP0 of the port, which was sent in Down", "discarded", "received")
	}
	s.arrives(pairs, outward)
	s.arrives(pairs, inward)
}, inactives.Must("SMA-State-08", "IBTA 7.2.7", "QP0; ci_post_send (55)",
	"A port in Down sends and receives nothing, also not at QP0. When it is active again, its QPs can be used."))

// awaitAttr waits until CA.Query returns a state of the port.
func (s *stage) awaitAttr(want ci.PortState) {
	var got ci.PortState
	if !await(s.t, func() bool { got = s.attr().State; return got == want }) {
		s.t.Failf("PortAttr.State", want.String(), "%v", got)
	}
}
