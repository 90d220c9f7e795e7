package wiresuite

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// relay stands between two adapters (or two QPs of one): each takes the certifier for its peer, and what it sends goes on to the
// other, with the addresses changed and a new ICRC. So all that both say passes here, is judged, and may be lost or doubled on the way.
type relay struct {
	t      *validate.T
	w      validate.Wire
	info   validate.WireInfo
	a, b   *kit.CA
	atA    site
	atB    site
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	form     *form
	lines    map[uint32]*line // by destination QP
	routed   bool             // QPs made from now on have a GRH, on InfiniBand
	findings []finding
	lose     []func(*packet) fate // asked in turn; one that decides is taken off
	seen     chan struct{}        // closed and made anew with each packet
	answers  map[wire.Syndrome]int
	failed   error
}

// site is an adapter as the relay reaches it.
type site struct {
	av    ci.AVAttr
	local ci.GID
	lid   ci.LID
	vls   int
}

// way is the address vector from there to the relay.
func (s site) way(r *relay) ci.AVAttr {
	av := s.av
	if r.routed {
		av.Global, av.SL = true, 3
		av.GRH = ci.GRH{DGID: r.info.GID, TrafficClass: 0x5a, FlowLabel: 0xfedcb, HopLimit: 9}
	}
	return av
}

// line is one direction: the requests of a QP, or the answers to the other's.
type line struct {
	to       site
	from     origin
	requests *flow // of the QP that sends here
	answers  *flow // what the packets here answer
}

// fate is what becomes of a packet on its way.
type fate uint8

const (
	goOn fate = iota
	lost
	twice
)

// newRelay opens everything and begins to pass packets on. stop ends it.
func newRelay(t *validate.T) *relay {
	a, b := kit.OpenPair(t)
	r := &relay{t: t, w: t.Wire(), a: a, b: b, done: make(chan struct{}), lines: map[uint32]*line{}, seen: make(chan struct{}), answers: map[wire.Syndrome]int{}}
	r.info = r.w.Info()
	r.atA, r.atB = r.site(a), r.site(b)
	r.form = newForm(r.info, a.Port.PKeys[0])
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	t.Go(func() { r.run(ctx) })
	return r
}

func (r *relay) site(ca *kit.CA) site {
	av, local, ok := ca.AddressAt(r.info.GID, r.info.LID)
	if !ok {
		r.t.Skip("a port has no GID of the address family of %v, the certifier's end", r.info.GID)
	}
	if r.info.Link == ci.LinkEthernet { // values that no header has by chance
		av.GRH.TrafficClass, av.GRH.HopLimit = 0x68, 37
		if !v4(r.info.GID) {
			av.GRH.FlowLabel = 0xb71e5
		}
	}
	return site{av, local, ca.Port.LID, dataVLs(ca.Port.MaxVLs)}
}

// stop ends the relay; idempotent.
func (r *relay) stop() {
	r.cancel()
	<-r.done
}

// pair makes two QPs in RTS that talk to each other through the relay.
func (r *relay) pair(opts ...kit.Option) *kit.Pair {
	c := kit.Options(r.a, r.b, opts...)
	p := &kit.Pair{A: r.a.End(c), B: r.b.End(c)}
	service := map[ci.QPType]wire.Service{ci.RC: wire.RC, ci.UC: wire.UC, ci.UD: wire.UD}[c.Type]
	flowOf := func(e *kit.End) *flow {
		return newFlow(service, c.MTU.Bytes(), int(*c.InitDepth), uint32(e.PSN), func(num int, rule, expected, got string, args ...any) {
			r.find(finding{rule, num, expected, fmt.Sprintf(got, args...)})
		})
	}
	fa, fb := flowOf(p.A), flowOf(p.B)
	r.mu.Lock()
	from := func(s site) origin { return origin{service, s.way(r), s.local, s.lid, s.vls} }
	r.lines[uint32(p.B.Num())] = &line{r.atB, from(r.atA), fa, fb}
	r.lines[uint32(p.A.Num())] = &line{r.atA, from(r.atB), fb, fa}
	r.mu.Unlock()
	kit.Random(r.t, p.A.Buf.Bytes)
	for _, x := range []struct {
		e, peer *kit.End
		at      site
	}{{p.A, p.B, r.atA}, {p.B, p.A, r.atB}} {
		x.e.Init()
		if c.Type == ci.UD {
			x.e.RTR(nil)
			x.e.AddressTo(x.at.way(r), x.peer.Num(), c.QKey)
		} else {
			x.e.RTRTo(x.at.way(r), x.peer.Num(), x.peer.PSN)
		}
	}
	p.A.RTS()
	p.B.RTS()
	return p
}

// find records a finding; the relay's lock is held.
func (r *relay) find(f finding) {
	r.t.Remark(f.num, fmt.Sprintf("%s: expected %s, got %s", f.rule, f.expected, f.got))
	r.findings = append(r.findings, f)
}

// run passes packets on until the context ends.
func (r *relay) run(ctx context.Context) {
	defer close(r.done)
	for {
		b, err := r.w.Recv(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.mu.Lock()
				r.failed = err
				r.mu.Unlock()
			}
			return
		}
		r.pass(b)
	}
}

// pass deals with one packet.
func (r *relay) pass(b []byte) {
	p, err := take(&r.info, b)
	p.num = r.t.Packet(validate.WirePacket{Time: p.when, Link: r.info.Link, FromHCA: true, Data: b})
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { close(r.seen); r.seen = make(chan struct{}) }()
	if p.at < 0 {
		for _, f := range r.form.judge(p, err, origin{}) {
			r.find(f)
		}
		return
	}
	l := r.lines[p.BTH.DestQP]
	if l == nil {
		r.find(finding{ruleOpcode, p.num, "a packet to a QP of the connections", p.String()})
		return
	}
	for _, f := range r.form.judge(p, err, l.from) {
		r.find(f)
	}
	if err != nil {
		return
	}
	what := goOn
	for i, f := range r.lose {
		if what = f(p); what != goOn {
			r.lose = append(r.lose[:i:i], r.lose[i+1:]...)
			break
		}
	}
	if what == lost {
		r.t.Remark(p.num, "lost on the way, by the certifier")
	}
	if p.BTH.Opcode.Response() {
		l.answers.response(p, what != lost)
		if p.BTH.Opcode == wire.RCAcknowledge {
			r.answers[p.AETH.Syndrome]++
		}
	} else {
		l.requests.request(p, what != lost)
	}
	if what == lost {
		return
	}
	o := outgoing{Packet: p.Packet, src: r.info.GID, dst: l.to.local, slid: r.info.LID, dlid: l.to.lid, sport: r.info.UDPPort,
		pad: &p.BTH.Pad, padding: p.Padding, alter: func(t []byte) { copy(t, p.whole[p.at:]) }}
	if l.from.av.Global && r.info.Link == ci.LinkInfiniBand {
		o.grh = &wire.GRH{HopLimit: 64, SGID: r.info.GID, DGID: l.to.local}
	}
	out := o.bytes(&r.info)
	copies := 1
	if what == twice {
		copies = 2
	}
	for range copies {
		if err := r.w.Send(out); err != nil {
			r.failed = err
		}
	}
}

// next decides the fate of the first packet to come that is meant.
func (r *relay) next(what fate, meant func(*packet) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lose = append(r.lose, func(p *packet) fate {
		if meant(p) {
			return what
		}
		return goOn
	})
}

// until waits for an answer with a syndrome to pass.
func (r *relay) until(syn func(wire.Syndrome) bool) {
	deadline := time.NewTimer(r.t.Remaining())
	defer deadline.Stop()
	for {
		r.mu.Lock()
		seen := r.seen
		for s := range r.answers {
			if syn(s) {
				r.mu.Unlock()
				return
			}
		}
		r.mu.Unlock()
		select {
		case <-seen:
		case <-deadline.C:
			r.t.Failf("answers that pass the relay", "a NAK that is due", "none by the deadline")
		}
	}
}

// judge reports what broke the rule, once.
func (r *relay) judge(rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		r.t.Logf("the certifier's end of the link: %v", r.failed)
	}
	for _, f := range r.findings {
		if f.rule == rule {
			r.t.Report(validate.Failure{Where: fmt.Sprintf("packet %d", f.num), Expected: f.expected, Got: f.got})
			return
		}
	}
}
