package reference

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/clock"
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
	filter func(Dir, *rvt.Packet) Verdict
	lanes  [2]*lane[rvt.Packet] // by Dir
	recv   rvt.Receiver
	stats  impairStats
	losses func(Dir, *rvt.Packet, string) // or nil: see watchLosses

	live   sync.RWMutex // held shared while a held packet goes on
	closed bool
}

// impairGroupPort is one whose inner port has more to it.
type impairGroupPort struct {
	*impairPort
	innerGroups
}

// impairStats counts by Verdict.
type impairStats [Corrupt + 1]atomic.Uint64

func newImpairPort(in rvt.Port, c ImpairConfig, clock clock.Clock) rvt.Port {
	p := &impairPort{Port: in, filter: c.Filter}
	for d, i := range []Impairment{Out: c.Out, In: c.In} {
		p.lanes[d] = newLane[rvt.Packet](impairCargo{p, Dir(d)}, clock, i, rand.New(rand.NewPCG(c.Seed, uint64(d))))
	}
	if _, ok := in.(rvt.GroupPort); ok {
		return impairGroupPort{p, innerGroups{in}}
	}
	return p
}

func (p *impairPort) inner() any { return p.Port }

// watchLosses has f told of every packet that is dropped, and of every one whose corruption the ICRC catches. It is called before Start.
func (p *impairPort) watchLosses(f func(Dir, *rvt.Packet, string)) { p.losses = f }

// impairCargo is the packets of one direction.
type impairCargo struct {
	p   *impairPort
	dir Dir
}

func (c impairCargo) judge(pkt *rvt.Packet) Verdict {
	if c.p.filter == nil {
		return Chance
	}
	return c.p.filter(c.dir, pkt)
}

func (impairCargo) again(pkt rvt.Packet) rvt.Packet {
	pkt.Payload = slices.Clone(pkt.Payload) // the receiver may change the list
	return pkt
}

func (impairCargo) keep(pkt rvt.Packet) rvt.Packet {
	var body []byte
	for _, b := range pkt.Payload {
		body = append(body, b...)
	}
	pkt.Payload = nil
	if len(body) > 0 {
		pkt.Payload = [][]byte{body}
	}
	pkt.GRH = slices.Clone(pkt.GRH)
	return pkt
}

func (impairCargo) flip(pkt *rvt.Packet, bit uint32) bool { return corrupt(pkt, bit) }

func (c impairCargo) decided(pkt *rvt.Packet, v Verdict, gone bool) {
	c.p.stats[v].Add(1)
	if !gone {
		return
	}
	reason := "impair_dropped"
	if v == Corrupt {
		reason = "impair_corrupted, drop_icrc"
		if c.p.recv != nil {
			c.p.recv.Count(rvt.DropICRC, 1)
		}
	}
	if c.p.losses != nil {
		c.p.losses(c.dir, pkt, reason)
	}
}

func (c impairCargo) emit(pkts []rvt.Packet, late, wait, polled bool) {
	p := c.p
	if late {
		p.live.RLock()
		defer p.live.RUnlock()
		if p.closed {
			return
		}
	}
	if c.dir == Out {
		p.Port.Send(pkts)
	} else {
		p.recv.Deliver(pkts, wait, polled)
	}
}

// through sends trains through a lane, cut into packets.
func (p *impairPort) through(d Dir, pkts []rvt.Packet, wait, polled bool) {
	list := make([]rvt.Packet, 0, packetCount(pkts))
	for i := range pkts {
		for k := range pkts[i].N {
			list = append(list, cutTrain(&pkts[i], k))
		}
	}
	p.lanes[d].take(list, wait, polled)
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
	r.p.through(In, pkts, wait, polled)
}

// Send passes the sending lane.
func (p *impairPort) Send(pkts []rvt.Packet) { p.through(Out, pkts, false, false) }

// Hints: what may lose packets is not lossless.
func (p *impairPort) Hints() rvt.Hints {
	h := p.Port.Hints()
	h.Lossless = false
	return h
}

// CatchUp leaves it to the port; what is held has not arrived.
func (p *impairPort) CatchUp(mark uint64) (next uint64, done bool) { return catchUp(p.Port, mark) }

// Close forgets what is held.
func (p *impairPort) Close() error {
	p.live.Lock()
	p.closed = true
	p.live.Unlock()
	for _, l := range p.lanes {
		l.forget()
	}
	return p.Port.Close()
}

func (p *impairPort) setLink(up bool) { p.Port.(interface{ setLink(bool) }).setLink(up) }

func (p *impairPort) counters(m map[string]uint64) {
	for v := Pass; v <= Corrupt; v++ {
		m["impair_"+v.String()] += p.stats[v].Load()
	}
	if in, ok := p.Port.(interface{ counters(map[string]uint64) }); ok {
		in.counters(m)
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
