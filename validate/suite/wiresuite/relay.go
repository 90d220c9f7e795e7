package wiresuite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/wire"
)

// relay stands between two adapters, or between two QPs of one adapter. Each QP has the certifier as its peer. The
// relay forwards packets to the other QP with changed addresses and a new ICRC, so it can check, drop or duplicate each
// of them.
type relay struct {
	t      *validate.T
	w      validate.Wire
	info   validate.WireInfo
	a, b   *kit.CA
	atA    site
	atB    site
	cancel context.CancelFunc
	done   chan struct{}

	mu         sync.Mutex
	form       *form
	lines      map[uint32][]*line // by destination QP, of which both adapters may have one with the same number
	routed     bool               // whether QPs created later have a GRH, on InfiniBand
	findings   []finding
	treatments []func(*packet) treatment // consulted in order; one that decides is removed
	seen       chan struct{}             // closed and replaced for each packet
	answers    map[wire.Syndrome]int
	failed     error
}

// site is the address of an adapter as the relay uses it.
type site struct {
	av    ci.AVAttr
	local ci.GID
	lid   ci.LID
	vls   int
}

// way returns the address vector from the adapter to the relay.
func (s site) way(r *relay) ci.AVAttr {
	av := s.av
	if r.routed {
		av.Global, av.SL = true, 3
		av.GRH = ci.GRH{DGID: r.info.GID, TrafficClass: 0x5a, FlowLabel: 0xfedcb, HopLimit: 9}
	}
	return av
}

// line is one direction: the requests of a QP and the answers to the other QP.
type line struct {
	to       site
	from     origin
	requests *flow // flow of the QP that sends in this direction
	answers  *flow // flow that packets of this direction answer
}

// treatment is what the relay does with a packet.
type treatment uint8

const (
	forward treatment = iota
	lose
	duplicate
)

// newRelay opens both adapters and starts to forward packets until stop.
func newRelay(t *validate.T) *relay {
	a, b := kit.OpenPair(t)
	r := &relay{
		t:       t,
		w:       t.Wire(),
		a:       a,
		b:       b,
		done:    make(chan struct{}),
		lines:   map[uint32][]*line{},
		seen:    make(chan struct{}),
		answers: map[wire.Syndrome]int{},
	}
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
		r.t.Skip("a port has no GID of the address family of %v, the address of the certifier's end", r.info.GID)
	}
	if r.info.Link == ci.LinkEthernet { // values that no header has by default
		av.GRH.TrafficClass, av.GRH.HopLimit = 0x68, 37
		if !isIPv4(r.info.GID) {
			av.GRH.FlowLabel = 0xb71e5
		}
	}
	return site{av, local, ca.Port.LID, dataVLs(ca.Port.MaxVLs)}
}

// stop ends the relay. It may be called more than once.
func (r *relay) stop() {
	r.cancel()
	<-r.done
}

// pair creates two QPs in RTS that are connected through the relay.
func (r *relay) pair(opts ...kit.Option) *kit.Pair {
	c := kit.Options(r.a, r.b, opts...)
	p := &kit.Pair{A: r.a.End(c), B: r.b.End(c)}
	service := map[ci.QPType]wire.Service{ci.RC: wire.RC, ci.UC: wire.UC, ci.UD: wire.UD}[c.Type]
	flowOf := func(e *kit.End) *flow {
		return newFlow(service, c.MTU.Bytes(), int(*c.InitDepth), uint32(e.PSN),
			func(num int, rule, expected, got string, args ...any) {
				r.find(finding{rule, num, expected, fmt.Sprintf(got, args...)})
			})
	}
	fa, fb := flowOf(p.A), flowOf(p.B)
	r.mu.Lock()
	from := func(s site) origin { return origin{service, s.way(r), s.local, s.lid, s.vls, false} }
	r.add(p.B.Num(), &line{r.atB, from(r.atA), fa, fb})
	r.add(p.A.Num(), &line{r.atA, from(r.atB), fb, fa})
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

// add adds a line to a QP. It replaces that of a destroyed QP with the same number, which has the same ends. The caller
// holds r.mu.
func (r *relay) add(qpn ci.QPN, l *line) {
	list := slices.DeleteFunc(r.lines[uint32(qpn)], func(x *line) bool {
		return x.from.gid == l.from.gid && x.from.lid == l.from.lid
	})
	r.lines[uint32(qpn)] = append(list, l)
}

// line returns the line of a packet, or nil. If several QPs have its destination number, the source address decides.
// The caller holds r.mu.
func (r *relay) line(p *packet) *line {
	list := r.lines[p.BTH.DestQP]
	for _, l := range list {
		if p.isFrom(r.info.Link, l.from) {
			return l
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// find records a finding. The caller holds r.mu.
func (r *relay) find(f finding) {
	r.t.Remark(f.num, fmt.Sprintf("%s: expected %s, got %s", f.rule, f.expected, f.got))
	r.findings = append(r.findings, f)
}

// run forwards packets until the context ends.
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

// pass handles one packet.
func (r *relay) pass(b []byte) {
	p, err := take(&r.info, b)
	p.num = r.t.Packet(validate.WirePacket{Time: p.when, Link: r.info.Link, FromHCA: true, Data: b})
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { close(r.seen); r.seen = make(chan struct{}) }()
	if p.at < 0 {
		for _, f := range r.form.check(p, err, origin{}) {
			r.find(f)
		}
		return
	}
	l := r.line(p)
	if l == nil {
		r.find(finding{ruleOpcode, p.num, "a destination QP of one of the connections", p.String()})
		return
	}
	for _, f := range r.form.check(p, err, l.from) {
		r.find(f)
	}
	if err != nil {
		return
	}
	what := forward
	for i, f := range r.treatments {
		if what = f(p); what != forward {
			r.treatments = append(r.treatments[:i:i], r.treatments[i+1:]...)
			break
		}
	}
	if what == lose {
		r.t.Remark(p.num, "dropped on the way by the certifier")
	}
	if p.BTH.Opcode.Response() {
		l.answers.response(p, what != lose)
		if p.BTH.Opcode == wire.RCAcknowledge {
			r.answers[p.AETH.Syndrome]++
		}
	} else {
		l.requests.request(p, what != lose)
	}
	if what == lose {
		return
	}
	o := outgoing{Packet: p.Packet, src: r.info.GID, dst: l.to.local, slid: r.info.LID, dlid: l.to.lid,
		sport: r.info.UDPPort,
		pad:   &p.BTH.Pad, padding: p.Padding, alter: func(t []byte) { copy(t, p.whole[p.at:]) }}
	if l.from.av.Global && r.info.Link == ci.LinkInfiniBand {
		o.grh = &wire.GRH{HopLimit: 64, SGID: r.info.GID, DGID: l.to.local}
	}
	out := o.bytes(&r.info)
	copies := 1
	if what == duplicate {
		copies = 2
	}
	for range copies {
		if err := r.w.Send(out); err != nil {
			r.failed = err
		}
	}
}

// next sets what happens to the next packet that match selects.
func (r *relay) next(what treatment, match func(*packet) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.treatments = append(r.treatments, func(p *packet) treatment {
		if match(p) {
			return what
		}
		return forward
	})
}

// until waits until an answer with a selected syndrome passes.
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
			r.t.Failf("answers that pass the relay", "the expected NAK", "none by the deadline")
		}
	}
}

// report reports the first finding for the rule.
func (r *relay) report(rule string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		r.t.Logf("the certifier's end of the link failed: %v", r.failed)
	}
	for _, f := range r.findings {
		if f.rule == rule {
			r.t.Report(validate.Failure{Where: fmt.Sprintf("packet %d", f.num), Expected: f.expected, Got: f.got})
			return
		}
	}
}
