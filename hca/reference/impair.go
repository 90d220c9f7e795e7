package reference

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Dir is the direction of a packet through a port.
type Dir uint8

// Directions.
const (
	Out Dir = iota // sent
	In             // received
)

// Verdict is what becomes of a packet.
type Verdict uint8

// Verdicts. Chance leaves it to the probabilities, the others overrule them.
const (
	Chance Verdict = iota
	Pass
	Drop
	Duplicate // twice, one behind the other
	Reorder   // held back until one to three more packets have passed, or MaxDelay
	Delay     // held for a time up to MaxDelay
	Corrupt   // one bit flipped, of the packet as it would be on a wire
)

// Impairment holds probabilities, 0 to 1, for each packet; a train is so many packets. The first that comes true in this order counts.
type Impairment struct {
	Drop, Duplicate, Reorder, Delay, Corrupt float64
	// MaxDelay is the longest that a packet is held; 0 is 1 ms.
	MaxDelay time.Duration
}

// ImpairConfig describes what Impair does to a port.
type ImpairConfig struct {
	// Seed makes the choices: the same packets in the same order meet the same fate.
	Seed uint64
	// Out is for packets sent, In for packets received.
	Out, In Impairment
	// Filter, if not nil, is asked about every single packet first. It may be called concurrently, and may not keep the packet.
	Filter func(Dir, *rvt.Packet) Verdict
}

// Impair makes a port worse. It splits trains, so it costs speed even where it does no harm. A corrupted packet is encoded, a bit of it
// flipped, and decoded: the ICRC catches it, which is counted as a drop_icrc of this HCA, unless the bit is one that the ICRC does not
// cover. Held packets go on by the HCA's clock; Close forgets them.
func Impair(p PortConfig, c ImpairConfig) PortConfig {
	return PortConfig{
		open: func(e portEnv) (rvt.Port, error) {
			in, err := p.open(e)
			if err != nil {
				return nil, err
			}
			return newImpairPort(in, c, e.clock), nil
		},
		guid: p.guid,
		link: p.link,
	}
}

// impairPort stands in front of a port, and with its lanes between it and its receiver.
type impairPort struct {
	rvt.Port
	clock  rvt.Clock
	filter func(Dir, *rvt.Packet) Verdict
	lanes  [2]lane // by Dir
	recv   rvt.Receiver
	stats  impairStats
	losses func(Dir, *rvt.Packet, string) // or nil: see watchLosses

	live   sync.RWMutex // held shared while a held packet goes on
	closed bool
}

// impairGroupPort is one whose inner port has more to it.
type impairGroupPort struct{ *impairPort }

type impairStats struct {
	passed, dropped, duplicated, reordered, delayed, corrupted atomic.Uint64
}

// lane is one direction.
type lane struct {
	p    *impairPort
	dir  Dir
	i    Impairment
	emit func([]rvt.Packet, bool, bool)

	mu      sync.Mutex
	rnd     *rand.Rand
	waiting []*heldPacket // reordered, oldest first
}

// heldPacket is a copy on its way.
type heldPacket struct {
	pkt     rvt.Packet
	reorder bool // in waiting, until released
	after   int  // packets that must pass first; under lane.mu
	timer   rvt.Timer
}

func newImpairPort(in rvt.Port, c ImpairConfig, clock rvt.Clock) rvt.Port {
	p := &impairPort{Port: in, clock: clock, filter: c.Filter}
	for d, i := range []Impairment{Out: c.Out, In: c.In} {
		if i.MaxDelay <= 0 {
			i.MaxDelay = time.Millisecond
		}
		p.lanes[d] = lane{p: p, dir: Dir(d), i: i, rnd: rand.New(rand.NewPCG(c.Seed, uint64(d)))}
	}
	p.lanes[Out].emit = func(pkts []rvt.Packet, _, _ bool) { in.Send(pkts) }
	p.lanes[In].emit = func(pkts []rvt.Packet, wait, polled bool) { p.recv.Deliver(pkts, wait, polled) }
	if _, ok := in.(rvt.GroupPort); ok {
		return impairGroupPort{p}
	}
	return p
}

func (p *impairPort) inner() any { return p.Port }

// watchLosses has f told of every packet that is dropped, and of every one whose corruption the ICRC catches. It is called before Start.
func (p *impairPort) watchLosses(f func(Dir, *rvt.Packet, string)) { p.losses = f }

func (l *lane) lost(p *rvt.Packet, reason string) {
	if l.p.losses != nil {
		l.p.losses(l.dir, p, reason)
	}
}

// Start puts the receiving lane in between.
func (p *impairPort) Start(r rvt.Receiver) error {
	p.recv = r
	return p.Port.Start(impairReceiver{r, p})
}

type impairReceiver struct {
	rvt.Receiver
	p *impairPort
}

func (r impairReceiver) Deliver(pkts []rvt.Packet, wait, polled bool) {
	r.p.lanes[In].take(pkts, wait, polled)
}

// Send passes the sending lane.
func (p *impairPort) Send(pkts []rvt.Packet) { p.lanes[Out].take(pkts, false, false) }

// Hints: what may lose packets is not lossless.
func (p *impairPort) Hints() rvt.Hints {
	h := p.Port.Hints()
	h.Lossless = false
	return h
}

// Close forgets what is held.
func (p *impairPort) Close() error {
	p.live.Lock()
	p.closed = true
	p.live.Unlock()
	for d := range p.lanes {
		l := &p.lanes[d]
		l.mu.Lock()
		for _, h := range l.waiting {
			h.timer.Stop()
		}
		l.waiting = nil
		l.mu.Unlock()
	}
	return p.Port.Close()
}

func (p *impairPort) setLink(up bool) { p.Port.(interface{ setLink(bool) }).setLink(up) }

func (p *impairPort) counters(m map[string]uint64) {
	s := &p.stats
	for name, c := range map[string]*atomic.Uint64{"passed": &s.passed, "dropped": &s.dropped, "duplicated": &s.duplicated,
		"reordered": &s.reordered, "delayed": &s.delayed, "corrupted": &s.corrupted} {
		m["impair_"+name] += c.Load()
	}
	if in, ok := p.Port.(interface{ counters(map[string]uint64) }); ok {
		in.counters(m)
	}
}

// Drive, JoinGroup and LeaveGroup are the inner port's.
func (p impairGroupPort) Drive() int {
	if d, ok := p.Port.(rvt.Driver); ok {
		return d.Drive()
	}
	return 0
}

func (p impairGroupPort) JoinGroup(g ci.GID) error  { return p.Port.(rvt.GroupPort).JoinGroup(g) }
func (p impairGroupPort) LeaveGroup(g ci.GID) error { return p.Port.(rvt.GroupPort).LeaveGroup(g) }

// take decides about packets, and passes on at once those that go on at once.
func (l *lane) take(pkts []rvt.Packet, wait, polled bool) {
	out := make([]rvt.Packet, 0, len(pkts))
	badICRC := 0
	l.mu.Lock()
	for i := range pkts {
		for k := range pkts[i].N {
			pkt := cutTrain(&pkts[i], k)
			out, badICRC = l.decide(pkt, out, badICRC)
		}
	}
	l.mu.Unlock()
	if badICRC > 0 && l.p.recv != nil {
		l.p.recv.Count(rvt.DropICRC, badICRC)
	}
	if len(out) > 0 {
		l.emit(out, wait, polled)
	}
}

// decide deals with one packet: it draws the same numbers whatever comes of them, so that a seed means the same for every packet.
func (l *lane) decide(pkt rvt.Packet, out []rvt.Packet, badICRC int) ([]rvt.Packet, int) {
	chance, span, bit := l.rnd.Float64(), l.rnd.Float64(), l.rnd.Uint32()
	v := Chance
	if l.p.filter != nil {
		v = l.p.filter(l.dir, &pkt)
	}
	if v == Chance {
		v = Pass
		for _, c := range []struct {
			p float64
			v Verdict
		}{{l.i.Drop, Drop}, {l.i.Duplicate, Duplicate}, {l.i.Reorder, Reorder}, {l.i.Delay, Delay}, {l.i.Corrupt, Corrupt}} {
			if chance < c.p {
				v = c.v
				break
			}
			chance -= c.p
		}
	}
	s := &l.p.stats
	switch v {
	case Drop:
		s.dropped.Add(1)
		l.lost(&pkt, "impair_dropped")
		return out, badICRC
	case Delay:
		s.delayed.Add(1)
		l.hold(pkt, 0, time.Duration(span*float64(l.i.MaxDelay)))
		return out, badICRC
	case Reorder:
		s.reordered.Add(1)
		l.hold(pkt, 1+int(bit%3), l.i.MaxDelay)
		return out, badICRC
	case Corrupt:
		s.corrupted.Add(1)
		if !corrupt(&pkt, bit) {
			l.lost(&pkt, "impair_corrupted, drop_icrc")
			return out, badICRC + 1
		}
		out = append(out, pkt)
	case Duplicate:
		s.duplicated.Add(1)
		second := pkt
		second.Payload = slices.Clone(pkt.Payload) // the receiver may change the list
		out = append(out, pkt, second)
	default:
		s.passed.Add(1)
		out = append(out, pkt)
	}
	return l.overtaken(out), badICRC
}

// overtaken tells the waiting that a packet has passed, and lets go those for whom that was enough. The caller holds l.mu.
func (l *lane) overtaken(out []rvt.Packet) []rvt.Packet {
	keep := l.waiting[:0]
	for _, h := range l.waiting {
		if h.after--; h.after > 0 {
			keep = append(keep, h)
			continue
		}
		h.timer.Stop()
		out = append(out, h.pkt)
	}
	clear(l.waiting[len(keep):])
	l.waiting = keep
	return out
}

// hold keeps a copy of a packet until a time, or with after > 0 until so many have passed if that is earlier. The caller holds l.mu.
func (l *lane) hold(pkt rvt.Packet, after int, d time.Duration) {
	h := &heldPacket{pkt: pkt, reorder: after > 0, after: after}
	var body []byte
	for _, b := range pkt.Payload {
		body = append(body, b...)
	}
	h.pkt.Payload = nil
	if len(body) > 0 {
		h.pkt.Payload = [][]byte{body}
	}
	h.pkt.GRH = slices.Clone(pkt.GRH)
	if after > 0 {
		l.waiting = append(l.waiting, h)
	}
	h.timer = l.p.clock.AfterFunc(d, func() { l.release(h) })
}

// release is the timer of a held packet. Of it and overtaken, the one that takes the packet out of waiting passes it on.
func (l *lane) release(h *heldPacket) {
	if h.reorder {
		l.mu.Lock()
		i := slices.Index(l.waiting, h)
		if i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
		}
		l.mu.Unlock()
		if i < 0 {
			return
		}
	}
	l.p.live.RLock()
	defer l.p.live.RUnlock()
	if !l.p.closed {
		l.emit([]rvt.Packet{h.pkt}, true, false)
	}
}

// cutTrain gives packet k of a train, over the same payload bytes but with a gather list of its own.
func cutTrain(p *rvt.Packet, k uint32) rvt.Packet {
	c := *p
	last := k+1 == p.N
	c.N, c.PSN, c.Start, c.Len = 1, ci.PSN(wire.PSNAdd(uint32(p.PSN), int(k))), p.Start && k == 0, p.MTU
	if last {
		c.Len = p.Len - k*p.MTU
	} else {
		c.End, c.HasImm, c.HasInv, c.SE, c.Ack = false, false, false, false, false
	}
	c.Payload = nil
	skip, left := k*p.MTU, c.Len
	for _, b := range p.Payload {
		if n := uint32(len(b)); skip >= n {
			skip -= n
			continue
		}
		b = b[skip:]
		skip = 0
		if uint32(len(b)) > left {
			b = b[:left]
		}
		if len(b) > 0 {
			c.Payload = append(c.Payload, b)
		}
		if left -= uint32(len(b)); left == 0 {
			break
		}
	}
	return c
}

// corrupt encodes a packet, flips one bit of it, and decodes it again: false if the ICRC tells, or nothing sensible comes out.
func corrupt(p *rvt.Packet, bit uint32) bool {
	var w wire.Packet
	putTrain(&w, p)
	if !putBTH(&w.BTH, p, 0, true) {
		return false
	}
	for _, b := range p.Payload {
		w.Payload = append(w.Payload, b...)
	}
	if uint32(len(w.Payload)) != p.Len {
		return false
	}
	// The addresses do not matter: the same are on both sides. IPv6, since that leaves no identification to guess.
	flow := wire.NewFlow6([16]byte{}, [16]byte{}, 0, 0)
	b := wire.AppendPacket(nil, &w)
	end := len(b) - wire.ICRCLen
	flow.Start(len(b)).Transport(b[:end]).Put(b[end:])
	bit %= uint32(8 * len(b))
	b[bit/8] ^= 1 << (bit % 8)
	if !flow.Check(b) || wire.ParsePacket(b, &w) != nil {
		return false
	}
	mtu := p.MTU
	takeHeaders(p, &w)
	p.MTU = mtu
	p.Payload = [][]byte{w.Payload}
	return true
}
