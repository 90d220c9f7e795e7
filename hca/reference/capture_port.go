package reference

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/rvt"
	"ciddk/wire"
)

// Capture shows a tap what passes a port: every packet sent, trains cut into packets, and every packet received, those that the port
// itself threw away included. While the tap is off, a batch of packets costs one load more than without; without Capture, nothing.
//
// Packets are encoded from what engine and port say to each other. So, where the port is UDP: the identification of an IPv4 packet is
// shown as 0 with the ICRC that belongs to it (a kernel numbers the segments of a train, and the ICRC covers the number); of a packet
// received, the TOS and TTL are shown as what this package sends. Packets with a wrong ICRC and those that
// are no packets are shown byte for byte as they came.
//
// Why a packet was dropped is known for the losses of an Impair port that is below (put Capture on top of Impair) and for those of
// the port. For those of the engine it is read off its counters, train by train; "perhaps" says that other packets were handled at
// the same time, and a packet that waited in the backlog of a busy QP has no reason.
func Capture(p PortConfig, t *Tap) PortConfig {
	return PortConfig{
		open: func(e portEnv) (rvt.Port, error) {
			in, err := p.open(e)
			if err != nil {
				return nil, err
			}
			return newCapturePort(in, t, e, p.link), nil
		},
		guid: p.guid,
		link: p.link,
	}
}

// capturePort stands in front of a port, and between it and its receiver.
type capturePort struct {
	rvt.Port
	tap   *Tap
	env   portEnv
	link  ci.Link
	epoch time.Time
	coder frameCoder
	recv  rvt.Receiver

	mu    sync.Mutex
	sends []*send // under way
}

// captureGroupPort is one whose inner port has more to it.
type captureGroupPort struct {
	*capturePort
	innerGroups
}

// send is a Send under way.
type send struct{ list []*seen }

// packetKey tells packets apart that are under way at the same time.
type packetKey struct {
	dest, src ci.QPN
	psn       ci.PSN
	op        wire.Op
}

func keyOf(p *rvt.Packet) packetKey { return packetKey{p.DestQP, p.SrcQP, p.PSN, p.Op} }

func newCapturePort(in rvt.Port, t *Tap, e portEnv, link ci.Link) rvt.Port {
	p := &capturePort{Port: in, tap: t, env: e, link: link, epoch: t.Epoch}
	if p.epoch.IsZero() {
		p.epoch = time.Now().Add(-e.clock.Now())
	}
	for q := any(in); q != nil; {
		switch x := q.(type) {
		case interface {
			watchLosses(func(Dir, *rvt.Packet, string))
		}:
			x.watchLosses(p.lost)
		case *udpPort:
			p.coder = udpCoder{x}
			x.refused = p.refused
		case *directPort:
			p.coder = directCoder{x}
			x.lost = p.lost
		}
		u, ok := q.(interface{ inner() any })
		if !ok {
			break
		}
		q = u.inner()
	}
	if _, ok := in.(rvt.GroupPort); ok {
		return captureGroupPort{p, innerGroups{in}}
	}
	return p
}

// CatchUp leaves it to the port.
func (p *capturePort) CatchUp(mark uint64) (next uint64, done bool) { return catchUp(p.Port, mark) }

func (p *capturePort) inner() any { return p.Port }

func (p *capturePort) setLink(up bool) { p.Port.(interface{ setLink(bool) }).setLink(up) }

func (p *capturePort) counters(m map[string]uint64) {
	if in, ok := p.Port.(interface{ counters(map[string]uint64) }); ok {
		in.counters(m)
	}
}

// Start puts the capture in between.
func (p *capturePort) Start(r rvt.Receiver) error {
	p.recv = r
	return p.Port.Start(captureReceiver{r, p})
}

// frames encodes the packets of a train.
func (p *capturePort) frames(list []*seen, d Dir, pkt *rvt.Packet, pending bool) []*seen {
	now := p.epoch.Add(p.env.clock.Now())
	for k := range pkt.N {
		one := cutTrain(pkt, k)
		if b := p.coder.encode(d, &one); b != nil {
			list = append(list, &seen{key: keyOf(&one), pending: pending,
				Frame: Frame{Time: now, HCA: p.env.guid, Port: p.env.num, Link: p.link, Dir: d, Data: b}})
		}
	}
	return list
}

// Send shows the packets, then sends them.
func (p *capturePort) Send(pkts []rvt.Packet) {
	if !p.tap.on.Load() {
		p.Port.Send(pkts)
		return
	}
	s := &send{}
	for i := range pkts {
		s.list = p.frames(s.list, Out, &pkts[i], true)
	}
	p.tap.add(p.env.clock, s.list)
	p.mu.Lock()
	p.sends = append(p.sends, s)
	p.mu.Unlock()
	defer func() { // even if the driver below panics: then the packet is the evidence
		p.mu.Lock()
		i := slices.Index(p.sends, s)
		p.sends = slices.Delete(p.sends, i, i+1)
		p.mu.Unlock()
		p.tap.settle(s.list)
	}()
	p.Port.Send(pkts)
}

// lost is told by ports below of packets that they drop.
func (p *capturePort) lost(d Dir, pkt *rvt.Packet, reason string) {
	if !p.tap.on.Load() {
		return
	}
	if d == In {
		list := p.frames(nil, In, pkt, false)
		for _, s := range list {
			s.Drop = reason
		}
		p.tap.add(p.env.clock, list)
		return
	}
	key := keyOf(pkt)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sends {
		for _, x := range s.list {
			// A packet and its repetition may be under way at once: two losses concern both.
			if x.key == key && p.tap.drop(x, reason) {
				return
			}
		}
	}
}

// refused is told by a UDP port of datagrams that it does not deliver.
func (p *capturePort) refused(c rvt.Counter, b []byte) {
	if !p.tap.on.Load() {
		return
	}
	f := Frame{Time: p.epoch.Add(p.env.clock.Now()), HCA: p.env.guid, Port: p.env.num, Link: p.link, Dir: In, Data: b, Drop: c.String()}
	p.tap.add(p.env.clock, []*seen{{Frame: f}})
}

// captureReceiver stands in front of the engine.
type captureReceiver struct {
	rvt.Receiver
	p *capturePort
}

// Deliver shows each train, and delivers it.
func (r captureReceiver) Deliver(pkts []rvt.Packet, wait, polled bool) {
	if !r.p.tap.on.Load() {
		r.Receiver.Deliver(pkts, wait, polled)
		return
	}
	for i := range pkts {
		r.one(pkts[i:i+1], wait, polled)
	}
}

func (r captureReceiver) one(pkt []rvt.Packet, wait, polled bool) {
	t := r.p.tap
	list := r.p.frames(nil, In, &pkt[0], true)
	t.add(r.p.env.clock, list)
	d := r.p.env.view.begin()
	defer func() { // as in Send
		if reason, n, alone := r.p.env.view.end(d); n > 0 {
			reason = among(reason, int(n), len(list), alone)
			for _, s := range list {
				t.drop(s, reason)
			}
		}
		t.settle(list)
	}()
	r.Receiver.Deliver(pkt, wait, polled)
}

// among words what is known of n drops that may concern some of all packets. For some reasons the engine counts a train it drops as one.
func among(reason string, n, all int, alone bool) string {
	switch {
	case !alone:
		return "perhaps " + reason + ": other packets were handled at the same time"
	case n < all:
		return fmt.Sprintf("%s: some of the %d packets that went together, or all", reason, all)
	}
	return reason
}

// Count passes on a count of the inner port. What could not be sent was in a Send of this moment.
func (r captureReceiver) Count(c rvt.Counter, n int) {
	r.Receiver.Count(c, n)
	if c != rvt.DropSendFailed || !r.p.tap.on.Load() {
		return
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for _, s := range r.p.sends {
		reason := among(c.String(), n, len(s.list), len(r.p.sends) == 1)
		for _, x := range s.list {
			r.p.tap.drop(x, reason)
		}
	}
}
