package cmsuite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Requests: their times, to the nanosecond, and which responses they accept.

// ended is the end of a request.
type ended struct {
	r   *mads.Received
	err error
}

// begin begins a request of an agent of the bench.
func (b *bench) begin(ctx context.Context, a mads.Agent, m *mads.Message) chan ended {
	end := make(chan ended, 2)
	kit.OK(b.t, a.StartDo(ctx, m, func(r *mads.Received, err error) { end <- ended{r, err} }), "mads.Agent.StartDo")
	return end
}

// pending expects that a request has not ended.
func pending(t *validate.T, end chan ended, where string) {
	select {
	case e := <-end:
		t.Failf(where, "the request has not ended", "it has ended, error %v", e.err)
	default:
	}
}

// one settles, and expects n datagrams of QP1.
func (b *bench) one(n int, where string) []*posted {
	b.settle(1)
	list := b.sent()
	kit.True(b.t, len(list) == n, "datagrams "+where, fmt.Sprint(n), "%s", describeSent(list))
	return list
}

// respond makes the bench receive the response to a datagram that it has sent.
func (b *bench) respond(to *posted, change func(w *ci.WC, slot []byte)) {
	m := bytes.Clone(to.mad)
	m[3] |= byte(mad.ResponseMask)
	b.inject(1, func(w *ci.WC, slot []byte) {
		copy(slot[grhLen:], m)
		if change != nil {
			change(w, slot)
		}
	})
}

var MADTime01 = datagrams.Must("MAD-Time-01", "IBTA 13.4.6.2", "mads, Message.Timeout, Retries",
	"A request is repeated when its timeout has passed since it was sent, and ends with Timeout after the last one, "+
		"neither sooner nor later. The timeout is one second if it is not given.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.time.request",
	Title: "requests without a response, in virtual time",
	Run:   timeRequest,
}, MADTime01)

func timeRequest(t *validate.T) {
	const ns, ms = time.Nanosecond, time.Millisecond
	b := newBench(t, benchSetting{virtual: true})
	from := b.agent(vendor())
	to := b.side.to(b.peer)
	for _, v := range kit.Variants(t, "", []struct {
		name           string
		timeout, total time.Duration
		retries, sends int
	}{{"300 ms and three retries", 300 * ms, 300 * ms, 3, 4}, {"no timeout and no retries", 0, time.Second, 0, 1},
		{"a negative timeout and number of retries", -time.Hour, time.Second, -3, 1}}) {
		m := datagram(t, mad.Get, 7)
		end := b.begin(t.Context(), from, &mads.Message{To: to, MAD: m, Timeout: v.timeout, Retries: v.retries})
		first := b.one(1, "of a request")[0]
		b.nextIn(v.total, "of a request")
		kit.SameBytes(t, "request behind its transaction ID", first.mad[16:], m[16:])
		for range v.sends - 1 {
			b.advance(v.total - ns)
			b.one(0, "before the timeout")
			b.advance(ns)
			kit.SameBytes(t, "repeated request", b.one(1, "after the timeout")[0].mad, first.mad)
			b.nextIn(v.total, "of a repeated request")
		}
		b.advance(v.total - ns)
		pending(t, end, "request before its last timeout")
		b.advance(ns)
		e := await(t, end, "request after its last timeout")
		kit.WantExactly(t, e.err, "error of a request after its last timeout", ci.Timeout)
		b.one(0, "after the last timeout")
		b.respond(first, nil)
		b.advance(time.Minute)
		b.one(0, "after a late response")
		pending(t, end, "request that has ended")
	}

	t.Step("%s", "a response after the first timeout")
	m := datagram(t, mad.Get, 0x1122334455667788)
	end := b.begin(t.Context(), from, &mads.Message{To: to, MAD: m, Timeout: time.Second, Retries: 1})
	first := b.one(1, "of a request")[0]
	b.nextIn(time.Second, "of a request")
	b.advance(time.Second)
	b.one(1, "after the timeout")
	b.nextIn(time.Second, "of a repeated request")
	b.advance(time.Second - ns)
	b.respond(first, nil)
	e := await(t, end, "request after its response")
	kit.OK(t, e.err, "request whose response came late")
	kit.Equal(t, "transaction ID of the response", e.r.Header().TID, uint64(0x1122334455667788))
	b.advance(time.Minute)
	b.one(0, "after the response")

	t.Step("%s", "a request that is not sent for a while")
	b.idle(from)
	entered, release := make(chan struct{}), make(chan struct{})
	free := sync.OnceFunc(func() { close(release) })
	defer free()
	calls := 0
	b.set(func() {
		b.hook = func(_ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error) {
			b.mu.Lock()
			calls++
			isFirst := calls == 1
			b.mu.Unlock()
			if isFirst {
				close(entered)
				<-release
			}
			return q.PostSend(wrs)
		}
	})
	t.Go(func() {
		if err := from.Send(&mads.Message{To: to, MAD: m}); err != nil {
			t.Report(validate.Failure{Where: "mads.Agent.Send", Expected: "success", Got: kit.Describe(err)})
		}
	})
	await(t, entered, "PostSend")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := b.begin(t.Context(), from, &mads.Message{To: to, MAD: datagram(t, mad.Get, 1), Timeout: time.Second})
	gone := b.begin(ctx, from, &mads.Message{To: to, MAD: datagram(t, mad.Get, 2), Timeout: time.Second})
	b.time.Advance(time.Hour)
	b.caughtUp(from)
	pending(t, waits, "request that waits in the send queue")
	cancel()
	e = await(t, gone, "request whose context has ended")
	kit.True(t, errors.Is(e.err, context.Canceled), "error of a request whose context has ended", "context.Canceled",
		"%v", e.err)
	free()
	b.one(2, "after the send queue has room: a datagram, and a request that was not canceled")
	b.nextIn(time.Second, "of the request")
	b.advance(time.Second - ns)
	pending(t, waits, "request before its timeout")
	b.advance(ns)
	kit.WantExactly(t, await(t, waits, "request after its timeout").err, "error of a request after its timeout",
		ci.Timeout)
	b.set(func() { b.hook = nil })

	t.Step("%s", "close")
	end = b.begin(t.Context(), from, &mads.Message{To: to, MAD: m, Timeout: time.Second, Retries: 5})
	first = b.one(1, "of a request")[0]
	kit.OK(t, from.Close(), "mads.Agent.Close")
	kit.WantExactly(t, await(t, end, "request of a closed agent").err, "error of a request of a closed agent",
		ci.InvalidState)
	b.respond(first, nil)
	b.advance(time.Minute)
	b.one(0, "after Close")
	err := from.StartDo(t.Context(), &mads.Message{To: to, MAD: m}, func(*mads.Received, error) {})
	kit.WantExactly(t, err, "mads.Agent.StartDo of a closed agent", ci.InvalidState)
	kit.True(t, !from.(mads.Backlog).CatchUp(func() {}), "mads.Backlog.CatchUp of a closed agent", "false", "true")
}

var MADTime02 = datagrams.Must("MAD-Time-02", "IBTA 13.5.4", "mads, Agent.Do",
	"A response is accepted from the address that the request was sent to: from its GID if it has one, else from its "+
		"LID without the bits of the LMC. A request to a group, or along a directed route, accepts any source.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.response.sources",
	Title: "responses to requests with each form of address, from each source",
	Run:   responseSources,
}, MADTime02)

func responseSources(t *validate.T) {
	b := newBench(t, benchSetting{})
	from := b.agent(vendor())
	isIB := b.ca.Port.Link == ci.LinkInfiniBand
	own := b.ca.Port.GIDs[0].GID
	to := b.side.to(b.peer)
	lid := to.AV.DLID
	lmc := ci.LID(1)<<b.ca.Port.LMC - 1
	gid := b.peer.ca.Port.GIDs[0].GID
	other := gid
	other[15] ^= 0x20
	group := gidOf([]byte{0xff, 0x12}, 9)
	with := func(l ci.LID, g ci.GID) func(w *ci.WC, slot []byte) {
		return func(w *ci.WC, slot []byte) {
			w.SLID = l
			w.Flags &^= ci.WCGRH
			if g != (ci.GID{}) {
				arriving{w, slot[:grhLen]}.ipv6(g, own)
			}
		}
	}
	address := func(l ci.LID, g ci.GID) mads.Address {
		d := mads.Address{AV: ci.AVAttr{DLID: l}, QPN: 1}
		if g != (ci.GID{}) {
			d.AV.Global, d.AV.GRH = true, ci.GRH{DGID: g, HopLimit: 64, SGIDIndex: to.AV.GRH.SGIDIndex}
		}
		return d
	}
	var none ci.GID
	b.set(func() {
		var valid ci.AV
		b.hook = func(_ ci.QPType, q ci.QP, wrs []ci.SendWR) (int, error) { // nobody receives requests to groups
			wrs = slices.Clone(wrs)
			for i := range wrs {
				switch v, ok := ci.As[*benchAV](wrs[i].To.AV); {
				case ok && v.attr.DLID < 0xbfff && (v.attr.DLID != 0 || !isIB):
					valid = wrs[i].To.AV
				case ok && valid != nil:
					wrs[i].To.AV, wrs[i].To.QPN = valid, 0xfffffe
				}
			}
			return q.PostSend(wrs)
		}
	})
	type source struct {
		name string
		lid  ci.LID
		gid  ci.GID
		ok   bool
	}
	type variant struct {
		name    string
		to      mads.Address
		sources []source
	}
	variants := []variant{{"a GID", address(0, gid), []source{{"another GID", 0, other, false},
		{"the GID", 0, gid, true}}}}
	isV4 := func(g ci.GID) bool { return g == mapped(g[12:]...) }
	for _, g := range []ci.GID{group, mapped(224, 0, 1, 9)} { // a GID sends to the groups of its family
		i := slices.IndexFunc(b.ca.Port.GIDs, func(e ci.GIDEntry) bool {
			return isV4(e.GID) == isV4(g) && e.GID != none
		})
		if i >= 0 {
			v := variant{"a group", address(0, g), []source{{"any GID", 0, other, true}}}
			v.to.AV.GRH.SGIDIndex = uint16(i)
			variants = append(variants, v)
		}
	}
	if isIB {
		variants = []variant{
			{"a LID", address(lid, none), []source{{"another LID", lid ^ 0x40, none, false},
				{"another LID beyond the LMC", lid ^ (lmc + 1), none, false}, {"the last LID of the LMC", lid | lmc,
					none, true}}},
			{"a LID", address(lid|lmc, none), []source{{"the base LID", lid, none, true}}},
			{"a LID", address(lid, none), []source{{"a GID and another LID", lid ^ 0x40, gid, false},
				{"a GID and the LID", lid, gid, true}}},
			{"a GID and a LID", address(lid, gid), []source{{"the LID without a GID", lid, none, false},
				{"another GID", lid, other, false}, {"another LID", lid ^ 0x40, gid, false}, {"both", lid, gid, true}}},
			{"a GID without a LID", address(0, gid), []source{{"another GID", lid, other, false},
				{"no GID", lid, none, false}, {"the GID and any LID", lid ^ 0x40, gid, true}}},
			{"a group", address(0xc123, group), []source{{"any source", lid ^ 0x40, other, true}}},
			{"a group", address(0xc123, group), []source{{"any LID", lid ^ 0x40, none, true}}},
			{"the first LID of groups", address(0xc000, none), []source{{"any LID", lid ^ 0x40, none, true}}},
			{"the last LID before groups", address(0xbfff, none), []source{{"another LID", lid ^ 0x40, none, false},
				{"the LID", 0xbfff, none, true}}},
		}
	}
	for _, v := range kit.Variants(t, "", variants) {
		m := datagram(t, mad.Get, 7)
		b.settle(1)
		b.sent()
		end := b.begin(t.Context(), from, &mads.Message{To: v.to, MAD: m, Timeout: time.Hour})
		first := b.one(1, "of a request to "+v.name)[0]
		for _, s := range v.sources {
			b.respond(first, with(s.lid, s.gid))
			b.settle(1)
			if !s.ok {
				pending(t, end, "request to "+v.name+" after a response from "+s.name)
				continue
			}
			e := await(t, end, "request to "+v.name+" after a response from "+s.name)
			kit.OK(t, e.err, "request to "+v.name)
			kit.SameBytes(t, "response", e.r.MAD[4:], m[4:])
		}
	}
}

var MADTime03 = datagrams.Must("MAD-Time-03", "CI access layer", "mads, Config.MaxReplies, MaxRepliesPeer",
	"Replies that report an error are bounded for each peer and in total: after a pause two seconds' worth at once, "+
		"and then the number per second of the configuration.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.reply.rate",
	Title: "more requests without an agent than are answered, from one peer and from several",
	Run:   replyRate,
}, MADTime03)

func replyRate(t *validate.T) {
	severalSources(t)
	const ns = time.Nanosecond
	for _, v := range kit.Variants(t, "", []struct {
		name    string
		c       mads.Config
		burst   int
		every   time.Duration
		isTotal bool
	}{{"two a second to a peer", mads.Config{MaxRepliesPeer: 2, MaxReplies: 1000}, 4, time.Second / 2, false},
		{"five a second in total", mads.Config{MaxRepliesPeer: 1000, MaxReplies: 5}, 10, time.Second / 5, true},
		{"one a second to a peer", mads.Config{MaxRepliesPeer: 1, MaxReplies: 1000}, 2, time.Second, false}}) {
		s := &sender{bench: newBench(t, benchSetting{mads: v.c, virtual: true})}
		// ask returns the number of answers to n requests from a LID.
		ask := func(lid ci.LID, n int) int {
			from := s.from(lid)
			s.settle(1)
			s.sent()
			for i := range n {
				m := datagram(t, mad.Get, uint64(i))
				s.inject(1, func(w *ci.WC, slot []byte) { copy(slot[grhLen:], m); from(w, slot) })
			}
			s.settle(1)
			list := s.sent()
			for i, p := range list {
				kit.Equal(t, "transaction ID of an answer", p.header().TID, uint64(i))
				kit.Equal(t, "status of an answer", p.header().Status, mad.StatusBadMethodAttribute)
			}
			return len(list)
		}
		kit.Equal(t, "answers at once", ask(0x101, v.burst+3), v.burst)
		s.advance(v.every - ns)
		kit.Equal(t, "answers before the time of one has passed", ask(0x101, 2), 0)
		s.advance(ns)
		kit.Equal(t, "answers after the time of one has passed", ask(0x101, 2), 1)
		others := 0
		for lid := ci.LID(0x200); lid < 0x203; lid++ { // two may share a limit by chance
			others = max(others, ask(lid, v.burst+1))
		}
		if v.isTotal {
			kit.Equal(t, "answers to other peers", others, 0)
		} else {
			kit.Equal(t, "answers to another peer", others, v.burst)
		}
		s.advance(3 * v.every)
		kit.Equal(t, "answers after the time of three has passed", ask(0x101, 5), min(3, v.burst))
		s.advance(time.Hour)
		kit.Equal(t, "answers after a pause", ask(0x101, v.burst+1), v.burst)
		s.end()
	}
}

var MADLocal01 = datagrams.Must("MAD-Local-01", "CI access layer", "mads; CA.LocalMAD",
	"A Get or Set of performance management that no agent has registered for is executed by CA.LocalMAD with the "+
		"sender's address, and its result is the response. No result, and an error, are no response.")

var _ = datagrams.Case(validate.Case{
	ID:    "mad.local.performance",
	Title: "requests that the adapter executes, answers, ignores and refuses",
	Needs: validate.Needs{Caps: ci.CapLocalMAD},
	Run:   localPerformance,
}, MADLocal01)

func localPerformance(t *validate.T) {
	b := newBench(t, benchSetting{})
	type call struct {
		src *ci.AVAttr
		in  ci.MAD
	}
	calls := make(chan call, 8)
	result := func(out *ci.MAD, err error) {
		b.set(func() {
			b.local = func(src *ci.AVAttr, in, to *ci.MAD) error {
				calls <- call{src, *in}
				if out != nil {
					*to = *out
				}
				return err
			}
		})
	}
	request := func(method mad.Method, tid uint64) []byte {
		m := datagram(t, method, tid)
		m[1] = byte(mad.ClassPerformance)
		return m
	}
	var answer ci.MAD
	copy(answer[:], request(mad.GetResp, 99))
	source := (&sender{bench: b}).from(0x222)
	ask := func(m []byte) {
		b.sent()
		b.inject(1, func(w *ci.WC, slot []byte) { copy(slot[grhLen:], m); w.SL = 6; source(w, slot) })
	}
	for _, method := range kit.Variants(t, "method", []mad.Method{mad.Get, mad.Set}) {
		result(&answer, nil)
		m := request(method, 5)
		ask(m)
		c := await(t, calls, "CA.LocalMAD")
		kit.SameBytes(t, "datagram at CA.LocalMAD", c.in[:], m)
		b.until("response of CA.LocalMAD", func() bool { return len(b.log) > 0 })
		p := b.one(1, "of the response")[0]
		kit.SameBytes(t, "response of CA.LocalMAD", p.mad, answer[:])
		kit.True(t, c.src != nil && c.src.DLID == p.av.DLID && c.src.SL == p.av.SL &&
			c.src.GRH.DGID == p.av.GRH.DGID, "source at CA.LocalMAD", fmt.Sprintf("%+v", p.av), "%+v", c.src)
		if b.ca.Port.Link == ci.LinkInfiniBand {
			kit.Equal(t, "LID and service level of the response", [2]uint16{uint16(p.av.DLID), uint16(p.av.SL)},
				[2]uint16{0x222, 6})
		}
	}
	result(nil, &ci.Error{Verb: "CA.LocalMAD", Status: ci.InvalidParameter})
	ask(request(mad.Get, 6))
	await(t, calls, "CA.LocalMAD that fails")
	result(&ci.MAD{}, nil)
	ask(request(mad.Get, 7))
	await(t, calls, "CA.LocalMAD without a result")
	ask(request(mad.Send, 8)) // neither Get nor Set
	result(&answer, nil)
	ask(request(mad.Get, 9))
	last := await(t, calls, "CA.LocalMAD")
	kit.Equal(t, "transaction ID at CA.LocalMAD", binary.BigEndian.Uint64(last.in[8:]), 9)
	b.until("response of CA.LocalMAD", func() bool { return len(b.log) > 0 })
	b.one(1, "of requests of which only the last has a response")
	own := b.agent(mads.AgentConfig{Class: mad.ClassPerformance, Version: vendorVersion,
		Methods: []mad.Method{mad.Get}})
	m := request(mad.Get, 10)
	ask(m)
	kit.SameBytes(t, "request at its agent", recv(t, own, "request at its agent").MAD, m)
	kit.Equal(t, "calls of CA.LocalMAD for a request that has an agent", len(calls), 0)
	kit.OK(t, own.Close(), "mads.Agent.Close")

	t.Step("%s", "an adapter without LocalMAD")
	b.set(func() { b.query = func(a *ci.CAAttr) { a.Caps &^= ci.CapLocalMAD } })
	adapter, err := b.al.Adapter(b.port.CA)
	kit.OK(t, err, "AL.Adapter")
	adapter.Poll()
	kit.OK(t, b.al.WaitPnP(t.Context()), "AL.WaitPnP")
	b.until("attributes of the adapter", func() bool { return !adapter.Attr().Caps.Has(ci.CapLocalMAD) })
	ask(request(mad.Get, 11))
	p := b.one(1, "of the response")[0]
	kit.Equal(t, "status of the response", p.header().Status, mad.StatusBadMethodAttribute)
	kit.Equal(t, "calls of CA.LocalMAD of an adapter without it", len(calls), 0)
}
