package cmsuite

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The limits of a manager. They bound what peers can make it keep, and what they can make it send.
var limits = area()

// timed is a rig whose manager has a clock that only the case advances, and settings of the case.
type timed struct {
	*rig
	clock *clock.Virtual
}

func newTimed(t *validate.T, cfg cm.Config) *timed {
	a, b := sides(t)
	a.local()
	y, _ := newEnds(a, b)
	g := &timed{&rig{script: newScript(t, b, a), y: y}, nil}
	g.start(cfg)
	return g
}

// start starts a manager with other settings in place of the one that the rig has.
func (g *timed) start(cfg cm.Config) {
	if g.m != nil {
		kit.OK(g.t, g.m.Close(), "cm.Service.Close")
	}
	g.clock = clock.NewVirtual(time.Hour)
	cfg.Clock = g.clock
	g.m = g.there.managerWith(cfg)
	g.sync("after the start of a manager") // the other one may have sent messages
	g.l = listen(g.t, g.m, cm.ListenConfig{})
}

// sends expects what the manager sends until it answers a message for no connection.
func (g *timed) sends(where, want string) {
	kit.Equal(g.t, "messages "+where, texts(g.sync(where)), want)
}

// refuses expects that the manager has no room for a request.
func (g *timed) refuses(where string) {
	g.send(1, g.newREQ())
	g.sends("after a request "+where, "REJ of REQ, no resources")
}

// answered returns a connection of the passive end whose REP has been sent. outcome gets the error of Accept.
func (g *timed) answered(change func(*mad.REQ)) *linked {
	k := g.requestWith(change)
	k.outcome = make(chan error, 1)
	err := k.StartAccept(g.t.Context(), g.y.acceptance(nil), func(err error) { k.outcome <- err })
	kit.OK(g.t, err, "cm.Conn.StartAccept")
	g.sends("after StartAccept", "REP")
	return k
}

// establish sends the RTU of a connection, or the DREQ that ends it.
func (g *timed) tell(k *linked, kind, want string) {
	g.send(k.tidOf(kind), g.message(k, kind))
	g.sends("after "+kind, want)
}

var CMLimit01 = limits.Must("CM-Limit-01", "CI access layer", "cm, Config.MaxPending, MaxPendingPeer",
	"A manager rejects requests beyond the limits of pending ones, of all sources and of one. A request that is "+
		"established or has ended makes room for one.")

var (
	_ = limits.Case(validate.Case{
		ID:    "cm.limit.pending",
		Title: "as many requests as a manager keeps, and each way to end one",
		Run:   limitPending,
	}, CMLimit01)
	_ = limits.Case(validate.Case{
		ID:    "cm.limit.source",
		Title: "as many requests as a manager keeps of one source",
		Run:   limitSource,
	}, CMLimit01)
)

func limitPending(t *validate.T) {
	const room = 3
	g := newTimed(t, cm.Config{MaxPending: room, MaxReplies: 1 << 20, MaxRepliesPeer: 1 << 20})
	for i, v := range kit.Variants(t, "", []struct {
		name  string
		end   func(k *linked)
		sends string
	}{
		{"Reject", func(k *linked) { g.refused(k) }, "REJ of REQ, consumer reject"},
		{"Close", func(k *linked) { kit.OK(t, k.Close(), "cm.Conn.Close") }, "REJ of REQ, consumer reject"},
		{"a REJ of the peer", func(k *linked) { g.send(k.tid, g.message(k, "REJ")) }, nothing},
		{"a REQ of a peer that has lost it", func(k *linked) { g.send(k.tid, g.message(k, "other REQ")) },
			rejectsStale},
		{"its RTU", func(k *linked) {
			kit.OK(t, k.StartAccept(t.Context(), g.y.acceptance(nil), func(error) {}), "cm.Conn.StartAccept")
			g.sends("after StartAccept", "REP")
			g.refuses("while the others have no RTU")
			g.send(k.tid, g.message(k, "RTU"))
		}, nothing},
		{"Established", func(k *linked) {
			kit.OK(t, k.StartAccept(t.Context(), g.y.acceptance(nil), func(error) {}), "cm.Conn.StartAccept")
			g.sends("after StartAccept", "REP")
			kit.OK(t, k.Established(), "cm.Conn.Established")
		}, nothing},
	}) {
		list := make([]*linked, room)
		for j := range list {
			list[j] = g.request()
		}
		g.refuses("beyond the limit")
		v.end(list[i%room])
		g.sends("after "+v.name, v.sends)
		list = append(list, g.request())
		g.refuses("beyond the limit, after " + v.name)
		for _, k := range list {
			kit.OK(t, k.Close(), "cm.Conn.Close")
		}
		g.sync("after the end of all requests")
	}
	g.send(1, g.newREQ()) // it waits for Accept
	g.sends("after a request", nothing)
	kit.OK(t, g.l.Close(), "cm.Listener.Close")
	g.sends("after the end of the listener", "REJ of REQ, invalid service ID")
	again := listen(t, g.m, cm.ListenConfig{})
	for range room {
		g.send(2, g.newREQ())
	}
	g.sends("after as many requests as the limit", nothing)
	g.refuses("beyond the limit, after the end of a listener")
	first := accepted(t, again)
	for range room - 1 {
		accepted(t, again)
	}
	// A peer-to-peer request waits for the peer's REQ until there is room.
	k := g.connectWith(func(c *cm.ConnectConfig) {
		c.Peer, c.Offset, c.Compare = true, peerOffset, []byte(peerMark)
	})
	q := g.newREQ()
	q.LocalCAGUID = ^uint64(0)
	copy(q.PrivateData[peerOffset:], peerMark)
	for range 2 {
		g.send(5, q)
		g.sends("after a peer-to-peer request beyond the limit", "REJ of REQ, no resources")
	}
	kit.OK(t, first.Close(), "cm.Conn.Close")
	g.sends("after Close", "REJ of REQ, consumer reject")
	g.send(5, q)
	g.sends("after a peer-to-peer request within the limit", nothing)
	kit.OK(t, g.await(k), "cm.Service.StartConnect of a peer-to-peer request")
	inState(t, k, cm.StateREQRcvd, "of a peer-to-peer request within the limit")
}

// severalSources skips the case if the adapters count as one source: with addresses of one IPv6 network, of which one
// host may have any number.
func severalSources(t *validate.T) {
	p := t.Attr().Ports[0]
	if p.Link == ci.LinkEthernet && !netip.AddrFrom16(p.GIDs[0].GID).Unmap().Is4() {
		t.Skip("the adapters have addresses of one IPv6 network, which is one source")
	}
}

func limitSource(t *validate.T) {
	severalSources(t)
	const room = 2
	g := newTimed(t, cm.Config{MaxPendingPeer: room})
	third := g.third()
	for i := range 2 {
		first := g.request()
		second := g.request()
		g.refuses("beyond the limit of its source")
		third.send(1, third.req(service, 0x700+g.n))
		other := accepted(t, g.l)
		kit.OK(t, second.Close(), "cm.Conn.Close")
		g.sends("after Close", "REJ of REQ, consumer reject")
		last := g.request()
		g.refuses(fmt.Sprintf("beyond the limit of its source, round %d", i+1))
		for _, c := range []cm.Conn{first, other, last} {
			kit.OK(t, c.Close(), "cm.Conn.Close")
		}
		g.sync("after the end of all requests")
	}
}

var CMLimit02 = limits.Must("CM-Limit-02", "CI access layer", "cm, Config.MaxPending, LookupRequest",
	"The limit of pending requests applies to SIDR requests without an answer, and to the answers that are kept for "+
		"copies. The oldest answer gives way.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.lookups",
	Title: "as many lookups, and as many answers, as a manager keeps",
	Run:   limitLookups,
}, CMLimit02)

func limitLookups(t *validate.T) {
	const room = 3
	g := newTimed(t, cm.Config{MaxPending: room})
	s := &sidrStage{g.rig, g.y}
	l := listen(t, g.m, cm.ListenConfig{Datagram: true})
	var sent []*mad.SIDRREQ
	take := func() cm.LookupRequest {
		q := s.lookup("lookup")
		s.send(uint64(q.RequestID), q)
		sent = append(sent, q)
		return s.taken(l, q)
	}
	refuse := func(where string) {
		q := s.lookup("lookup")
		s.send(uint64(q.RequestID), q)
		s.answered(q, uint64(q.RequestID), mad.SIDRNoQP, "SIDR_REQ "+where)
	}
	answer := func(r cm.LookupRequest) {
		kit.OK(t, r.Accept(s.qp.Num(), 5, nil), "cm.LookupRequest.Accept")
		q := r.Request()
		s.answered(q, uint64(q.RequestID), mad.SIDRValid, "SIDR_REQ that is accepted")
	}
	list := []cm.LookupRequest{take(), take(), take()}
	refuse("beyond the limit")
	answer(list[1])
	list = append(list, take())
	refuse("beyond the limit, after one was answered")
	for _, i := range []int{3, 0, 2} {
		answer(list[i])
	}
	// Of the answers to 1, 3, 0 and 2, the oldest has given way.
	for _, i := range []int{3, 0, 2} {
		s.send(uint64(sent[i].RequestID), sent[i])
		s.answered(sent[i], uint64(sent[i].RequestID), mad.SIDRValid, "copy of an answered SIDR_REQ")
	}
	s.send(1, sent[1])
	s.ignored("a copy of the SIDR_REQ that was answered first")
	s.taken(l, sent[1])
}

var CMLimit03 = limits.Must("CM-Limit-03", "CI access layer", "cm, Config.MaxPending",
	"A request above the limit displaces the oldest one whose peer has not answered the REP for 200 ms. That one ends "+
		"with ErrTimeout, and its peer receives a REJ, timeout.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.unanswered",
	Title: "REPs without an RTU in a full manager",
	Run:   limitUnanswered,
}, CMLimit03)

func limitUnanswered(t *validate.T) {
	const wait = 200 * time.Millisecond
	g := newTimed(t, cm.Config{MaxPending: 4})
	var list []*linked
	for range 4 {
		list = append(list, g.answered(nil))
		g.clock.Advance(10 * time.Millisecond)
	}
	// One of the middle, and the newest, are established.
	g.tell(list[1], "RTU", nothing)
	g.tell(list[3], "RTU", nothing)
	list = append(list, g.answered(nil)) // 40 ms after the first one
	g.clock.Advance(time.Millisecond)
	list = append(list, g.request())
	g.clock.Advance(wait - 41*time.Millisecond - 1)
	g.refuses("before the time of the oldest REP")
	g.clock.Advance(1)
	displaced := func(k *linked) {
		next := g.request()
		g.clock.Advance(1) // the manager ends the other one by a timer
		rej, m := expect[*mad.REJ](g.script, "REJ of a REP that was displaced")
		kit.Equal(t, "reason", rej.Reason, mad.RejTimeout)
		kit.Equal(t, "message", rej.Message, mad.WhichREP)
		kit.Equal(t, "IDs of the displaced connection", [2]uint32{rej.LocalCommID, rej.RemoteCommID},
			[2]uint32{k.ours, k.theirs})
		kit.Equal(t, "transaction ID", m.TID, k.tid)
		err := g.await(k)
		kit.True(t, errors.Is(err, cm.ErrTimeout), "cm.Conn.Accept of a request that was displaced", "cm.ErrTimeout",
			"%v", err)
		inState(t, k, cm.StateTimeWait, "of a request that was displaced")
		inState(t, next, cm.StateREQRcvd, "of the request in its place")
	}
	displaced(list[0])
	g.refuses("before the time of the next REP")
	g.clock.Advance(20*time.Millisecond - 2)
	g.refuses("before the time of the next REP")
	g.clock.Advance(2)
	displaced(list[2])
	g.refuses("before the time of the last REP")
	g.clock.Advance(20 * time.Millisecond)
	displaced(list[4])
	g.clock.Advance(time.Second)
	g.refuses("when no REP waits for an RTU")
	inState(t, list[1], cm.StateEstablished, "of an established connection")
	inState(t, list[3], cm.StateEstablished, "of an established connection")
	inState(t, list[5], cm.StateREQRcvd, "of a request that the consumer has not answered")
}

var CMLimit04 = limits.Must("CM-Limit-04", "CI access layer", "cm, Config.MaxPending",
	"Above 1000 requests a second, those without a place are dropped, so that their peers send them again. Before, "+
		"and two seconds later, they are rejected.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.flood",
	Title: "1001 requests within a second",
	Run:   limitFlood,
}, CMLimit04)

func limitFlood(t *validate.T) {
	const rate = 1000
	g := newTimed(t, cm.Config{MaxPending: 1, MaxReplies: 1 << 20, MaxRepliesPeer: 1 << 20})
	g.clock.Advance(100 * time.Millisecond)
	q := g.newREQ()
	refused := func(n int) {
		for i := range n {
			r := *q
			r.LocalCommID, r.LocalQPN = g.id(), 0x10000+uint32(i)
			g.send(1, &r)
		}
		list := g.sync("after requests without a place")
		kit.Equal(t, "answers to requests without a place", len(list), n)
		for _, m := range list {
			rej, ok := m.msg.(*mad.REJ)
			kit.True(t, ok && rej.Reason == mad.RejNoResources, "answer to a request without a place",
				"a REJ, no resources", "%s", describe(m.msg))
		}
	}
	dropped := func(where string) {
		g.send(1, g.newREQ())
		g.sends("after a request "+where, nothing)
	}
	k := g.request()
	for n := 1; n < rate; n += 27 {
		refused(27)
	}
	dropped("in a flood")
	s := &sidrStage{g.rig, g.y}
	listen(t, g.m, cm.ListenConfig{Datagram: true})
	q1, q2 := s.lookup("one"), s.lookup("two")
	s.send(1, q1)
	s.ignored("a lookup that has a place, in a flood")
	s.send(2, q2)
	s.ignored("a lookup without a place, in a flood")
	g.clock.Advance(time.Second)
	dropped("in the second after a flood")
	g.clock.Advance(time.Second)
	g.refuses("two seconds after a flood")
	s.send(3, q2)
	s.answered(q2, 3, mad.SIDRNoQP, "a lookup two seconds after a flood")
	kit.OK(t, k.Close(), "cm.Conn.Close")
	g.sends("after Close", "REJ of REQ, consumer reject")
	g.request()
}

var CMLimit05 = limits.Must("CM-Limit-05", "CI access layer", "cm, Config.MaxReplies, MaxRepliesPeer",
	"A manager answers messages of unverified senders at a limited rate, with twice as many at once, and withholds "+
		"further answers. Messages of its own consumers are not limited.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.replies",
	Title: "more messages for no connection than a manager answers",
	Run:   limitReplies,
}, CMLimit05)

func limitReplies(t *validate.T) {
	const rate = 4
	g := newTimed(t, cm.Config{})
	for _, cfg := range []cm.Config{{MaxRepliesPeer: rate}, {MaxReplies: rate}} {
		g.start(cfg)
		g.clock.Advance(time.Minute)
		replies := func(n int) {
			for range 3 * rate {
				g.send(3, &mad.DREQ{LocalCommID: 1, RemoteCommID: 2, RemoteQPN: 3})
			}
			k := g.request() // its answers are not limited
			kit.OK(t, k.StartAccept(t.Context(), g.y.acceptance(nil), func(error) {}), "cm.Conn.StartAccept")
			for i := 0; ; i++ {
				m := g.recv("answers of a manager")
				if _, ok := m.msg.(*mad.REP); ok {
					kit.Equal(t, "answers to messages for no connection", i, n)
					break
				}
				_, ok := m.msg.(*mad.DREP)
				kit.True(t, ok, "answer to a DREQ", "DREP", "%s", describe(m.msg))
			}
			g.send(k.tid, g.message(k, "RTU"))
		}
		replies(2 * rate)
		replies(0)
		g.clock.Advance(time.Second)
		replies(rate)
		g.clock.Advance(time.Minute)
		replies(2 * rate)
	}
}

var CMLimit08 = limits.Must("CM-Limit-08", "CI access layer", "cm, Config.MaxReplies, MaxRepliesPeer",
	"The limited rate applies to the answers to copies of REQs, also in time-wait. It does not apply to an RTU.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.copies",
	Title: "more copies than a manager answers",
	Run:   limitCopies,
}, CMLimit08)

func limitCopies(t *validate.T) {
	const rate = 4
	g := newTimed(t, cm.Config{MaxRepliesPeer: rate})
	for _, v := range kit.Variants(t, "", []struct {
		name, copies string
		reach        func() *linked
		want         int
	}{
		{"REPSent", "REQ", func() *linked { return g.answered(nil) }, 2 * rate},
		{"MRAREQSent", "REQ", func() *linked { return g.rig.delayed() }, 2*rate - 1}, // one for the MRA itself
		{"TimeWait after a REJ of the REQ", "REQ", func() *linked { return g.refused(g.request()) }, 2*rate - 1},
		{"TimeWait after a REJ of the REP", "REP", func() *linked { return g.refused(g.replied()) }, 2*rate - 1},
		{"Established", "REP", g.open, 3 * rate},
	}) {
		k := v.reach()
		if v.name == "REPSent" {
			g.clock.Advance(time.Second) // sync has had one answer
		} else {
			g.recv("message on the way to " + v.name)
		}
		for range 3 * rate {
			g.send(k.tid, g.message(k, v.copies))
		}
		end := g.request() // its answer is not limited
		kit.OK(t, end.StartAccept(t.Context(), g.y.acceptance(nil), func(error) {}), "cm.Conn.StartAccept")
		n := 0
		for {
			m := g.recv("answers to copies in " + v.name)
			if ours, _ := commIDs(m.msg); ours == end.ours {
				break
			}
			n++
		}
		kit.Equal(t, "answers to copies in "+v.name, n, v.want)
		g.clock.Advance(5 * time.Second)
	}
}

var CMLimit09 = limits.Must("CM-Limit-09", "CI access layer", "cm, Config.MaxPending, ListenConfig.Backlog",
	"A request above the limit displaces one of a source with more unfinished requests. The displaced one is no "+
		"longer offered, and a consumer that has it already is notified.")

var (
	_ = limits.Case(validate.Case{
		ID:    "cm.limit.displaced",
		Title: "some requests of a source, after many of another one",
		Run:   limitDisplaced,
	}, CMLimit09)
	_ = limits.Case(validate.Case{
		ID:    "cm.limit.displaced-lookup",
		Title: "one lookup of a source, after many of another one",
		Run:   limitDisplacedLookup,
	}, CMLimit09)
)

func limitDisplaced(t *validate.T) {
	severalSources(t)
	const room, few = 12, 6
	g := newTimed(t, cm.Config{MaxPending: room})
	third := g.third()
	other := listen(t, g.m, cm.ListenConfig{Service: service + 1})
	request := func(to mad.ServiceID) {
		g.n++
		third.send(1, third.req(to, 0x700+g.n))
	}
	var list []cm.Conn
	for range few {
		request(service)
		list = append(list, accepted(t, g.l))
	}
	for range room - few - 1 {
		request(service)
	}
	request(service + 1) // when it is there, the others are
	list = append(list, accepted(t, other))
	sent := map[uint32]bool{}
	for range few {
		q := g.newREQ()
		g.send(1, q)
		g.sends("after a request of a source with fewer requests", nothing)
		g.clock.Advance(1) // the manager ends the displaced one by a timer
		sent[q.LocalCommID] = true
	}
	alive := 0
	for _, c := range list {
		if c.State() == cm.StateREQRcvd {
			alive++
			continue
		}
		inState(t, c, cm.StateClosed, "of a request that was displaced")
		e := event(t, c, cm.EventUnreachable, "event of a request that was displaced")
		kit.True(t, errors.Is(e.Err, cm.ErrTimeout), "cause in the event", "cm.ErrTimeout", "%v", e.Err)
		_, err := c.Next(t.Context())
		kit.True(t, errors.Is(err, cm.ErrClosed), "cm.Conn.Next after the last event", "cm.ErrClosed", "%v", err)
	}
	for n := 0; n < few; {
		c := accepted(t, g.l)
		inState(t, c, cm.StateREQRcvd, "of a request at the listener")
		if sent[c.RemoteID()] {
			n++
		} else {
			alive++
		}
	}
	kit.Equal(t, "requests of the source with many that are left", alive, room-few)
	ctx, cancel := deadline(t, soon())
	defer cancel()
	_, err := g.l.Accept(ctx)
	kit.True(t, err != nil, "further requests at the listener", "none", "one")
}

func limitDisplacedLookup(t *validate.T) {
	severalSources(t)
	const room = 12
	g := newTimed(t, cm.Config{})
	s := &sidrStage{g.rig, g.y}
	third := g.third()
	l := listen(t, g.m, cm.ListenConfig{Datagram: true, Backlog: room})
	other := listen(t, g.m, cm.ListenConfig{Datagram: true, Service: service + 1})
	for range room {
		third.send(1, s.lookup("lookup"))
	}
	last := s.lookup("last") // when it is there, the others are
	last.ServiceID++
	third.send(1, last)
	s.taken(other, last)
	q := s.lookup("a few")
	s.send(2, q)
	s.ignored("a SIDR_REQ of a source with fewer requests")
	for i := range room {
		ctx, cancel := wait(t)
		r, err := l.AcceptLookup(ctx)
		cancel()
		kit.OK(t, err, "cm.Listener.AcceptLookup")
		kit.Equal(t, fmt.Sprintf("lookup %d is that of the other source", i), *r.Request() == *q, i == room-1)
		if i == room-1 {
			kit.OK(t, r.Accept(s.qp.Num(), 5, nil), "cm.LookupRequest.Accept")
			s.answered(q, 2, mad.SIDRValid, "SIDR_REQ that displaced another one")
		}
	}
}

var CMLimit06 = limits.Must("CM-Limit-06", "CI access layer", "cm, Config.MaxTimeWait",
	"Above the limit of connections in time-wait, the oldest leaves time-wait, whether its consumer has closed it or "+
		"not. Then a REQ with its IDs is a new request.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.time-wait",
	Title: "more connections in time-wait than a manager keeps",
	Run:   limitTimeWait,
}, CMLimit06)

func limitTimeWait(t *validate.T) {
	const room = 3
	g := newTimed(t, cm.Config{MaxTimeWait: room})
	var list []*linked
	end := func(ack mad.TimeExp, isClosed bool) *linked {
		k := g.answered(func(q *mad.REQ) { q.Primary.AckTimeout = ack })
		g.tell(k, "RTU", nothing)
		g.tell(k, "DREQ", nothing)
		g.tell(k, "DREQ", "DREP")
		inState(t, k, cm.StateTimeWait, "after the DREP")
		if isClosed {
			kit.OK(t, k.Close(), "cm.Conn.Close")
		}
		g.clock.Advance(1) // the manager ends the oldest one by a timer
		list = append(list, k)
		return k
	}
	isWaiting := func(where string, want ...int) {
		for i, k := range list {
			state := cm.StateClosed
			for _, w := range want {
				if w == i {
					state = cm.StateTimeWait
				}
			}
			inState(t, k, state, fmt.Sprintf("of connection %d, %s", i, where))
		}
	}
	end(22, false)
	end(22, true)
	end(22, false)
	isWaiting("with as many as the limit", 0, 1, 2)
	end(22, true)
	isWaiting("with one more", 1, 2, 3)
	e := event(t, list[0], cm.EventDisconnect, "event of a connection that has ended")
	kit.True(t, e.Err == nil, "error in the event", "none", "%v", e.Err)
	event(t, list[0], cm.EventDisconnected, "event of a connection that has ended")
	event(t, list[0], cm.EventTimeWaitExit, "event of a connection that left time-wait early")
	end(15, false) // 0.1 s
	isWaiting("with two more", 2, 3, 4)
	g.clock.Advance(mad.TimeExp(15).Duration())
	isWaiting("after the time of the last one", 2, 3)
	end(22, true)
	isWaiting("with three again", 2, 3, 5)
	kit.OK(t, list[2].Close(), "cm.Conn.Close in time-wait")
	isWaiting("after Close", 2, 3, 5)
	end(22, false)
	isWaiting("with one more again", 3, 5, 6)
	end(22, false)
	isWaiting("with two more again", 5, 6, 7)
	for _, i := range []int{0, 2, 3} {
		g.send(list[i].tid, list[i].req)
		c := accepted(t, g.l)
		kit.Equal(t, "REQ of a connection that has left time-wait", c.Request().REQ, *list[i].req)
		kit.OK(t, c.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
		g.sync("after Reject")
	}
}

var CMLimit07 = limits.Must("CM-Limit-07", "CI access layer", "cm, Config.TimeWaitLimit, MaxResponseTime",
	"The times that a peer requests are limited: those of its answers, of its MRAs, and of time-wait.")

var _ = limits.Case(validate.Case{
	ID:    "cm.limit.times",
	Title: "a peer requests the longest times",
	Run:   limitTimes,
}, CMLimit07)

func limitTimes(t *validate.T) {
	const exponent, longest = 16, 31
	limit := mad.TimeExp(exponent).Duration()
	g := newTimed(t, cm.Config{MaxResponseTime: exponent, TimeWaitLimit: 10 * time.Second})
	k := g.answered(func(q *mad.REQ) {
		q.LocalTimeout, q.RemoteTimeout = longest, longest
		q.Primary.AckTimeout, q.MaxCMRetries = 1, 2
	})
	g.repeats(k, "REP", limit+2*mad.TimeExp(0).Duration())
	g.send(k.tid, &mad.MRA{LocalCommID: k.theirs, RemoteCommID: k.ours, Message: mad.WhichREP, ServiceTimeout: longest})
	g.sends("after an MRA", nothing)
	g.repeats(k, "REP", limit+2*mad.TimeExp(0).Duration())
	g.tell(k, "RTU", nothing)
	kit.Equal(t, "time-wait", k.TimeWait(), mad.TimeExp(1).Duration())
	g.tell(k, "DREQ", nothing)
	g.passes(limit, "in which the peer waits for the DREP", "DREP")
	k = g.requestWith(func(q *mad.REQ) { q.Primary.AckTimeout = longest })
	kit.Equal(t, "longest time-wait by the response time", k.TimeWait(), limit)

	g.start(cm.Config{TimeWaitLimit: time.Second, MaxResponseTime: longest})
	k = g.connect()
	k.rep.TargetAckDelay = longest
	g.send(k.tid, k.rep)
	kit.OK(t, g.await(k), "cm.Service.StartConnect")
	for _, k := range []*linked{k, g.requestWith(func(q *mad.REQ) { q.Primary.AckTimeout = longest })} {
		kit.Equal(t, "longest time-wait", k.TimeWait(), time.Second)
		g.refused(k)
		g.sync("after Reject")
		g.lasts(k, time.Second)
	}
}

// passes advances the clock by d. The manager sends something at its end at the latest.
func (g *timed) passes(d time.Duration, where, want string) {
	g.clock.Advance(d)
	g.sends("in the time "+where, want)
}

// lasts expects that a connection in time-wait stays there for d.
func (g *timed) lasts(k *linked, d time.Duration) {
	inState(g.t, k, cm.StateTimeWait, "at the begin of time-wait")
	g.clock.Advance(d - 1)
	inState(g.t, k, cm.StateTimeWait, fmt.Sprintf("before the end of time-wait, after %v", d))
	g.clock.Advance(mad.TimeExp(2).Duration()) // the times are sums of such times
	inState(g.t, k, cm.StateClosed, fmt.Sprintf("after time-wait of %v", d))
}

// settle waits until the manager has set the timer of what it has sent. It takes one message of a connection after the
// other, and ignores this one.
func (g *timed) settle(k *linked) {
	g.send(^k.tid, &mad.APR{LocalCommID: k.theirs, RemoteCommID: k.ours})
	g.sends("after an APR that answers nothing", nothing)
}

// armed waits until the manager has set a timer for the next d.
func (g *timed) armed(d time.Duration) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if at, ok := g.clock.Next(); ok && at <= g.clock.Now()+d {
			return
		}
		select {
		case <-tick.C:
		case <-g.t.Context().Done():
			g.t.Failf("timers of the manager", fmt.Sprintf("one within %v", d), "none")
		}
	}
}

// repeats expects that the manager sends its last message again after d, and not before.
func (g *timed) repeats(k *linked, message string, d time.Duration) mad.CMMessage {
	g.clock.Advance(d - 1)
	g.sends(fmt.Sprintf("before the time of the next %s, %v", message, d), nothing)
	g.clock.Advance(1)
	m := g.recv(fmt.Sprintf("%s after %v without an answer", message, d))
	kit.Equal(g.t, fmt.Sprintf("message after %v without an answer", d), name(m.msg), message)
	ours, _ := commIDs(m.msg)
	if q, ok := m.msg.(*mad.REQ); ok {
		ours = q.LocalCommID
	}
	if l, ok := m.msg.(*mad.LAP); ok {
		ours = l.LocalCommID
	}
	kit.Equal(g.t, "communication ID of the repeated "+message, ours, k.ours)
	g.settle(k)
	return m.msg
}
