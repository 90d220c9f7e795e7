package impair

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
)

// Config describes what a Port does. The zero value does no harm.
type Config struct {
	// Seed determines the choices: the same packets in the same order get the same verdicts.
	Seed uint64
	// Out is for packets sent, In for packets received.
	Out, In Model
	// Filter, if not nil, decides on every single packet first; Chance leaves it to the model. It may be called
	// concurrently, and must not keep the packet.
	Filter func(rvt.Direction, *rvt.Packet) Verdict
}

// A Port impairs another port. It splits trains, so it costs speed even where it does no harm. It encodes a packet to
// corrupt it, flips a bit, and decodes it again: the ICRC detects that, which is counted as a drop_icrc of this HCA,
// unless it does not cover the bit. Held packets go on by the HCA's clock. Close drops them.
type Port struct {
	inner
	config Config
	lanes  [2]*Lane[rvt.Packet] // by Direction
	recv   rvt.Receiver
	lost   func(rvt.Loss) // or nil
	counts [NumVerdicts]atomic.Uint64

	live   sync.RWMutex // held shared while a held packet goes on
	closed bool
}

// inner is the port behind a Port.
type inner = rvt.Port

// New returns a port in front of another one, which is the new port's from then on. Errors: a nil port; a probability
// or a delay out of range. The inner port remains the caller's then.
func New(port rvt.Port, c Config) (*Port, error) {
	if ci.IsNil(port) {
		return nil, errors.New("impair: the port is nil")
	}
	for name, m := range map[string]*Model{"Out": &c.Out, "In": &c.In} {
		if err := m.check(); err != nil {
			return nil, fmt.Errorf("impair: Config.%s: %w", name, err)
		}
	}
	return &Port{inner: port, config: c}, nil
}

// Unwrap returns the inner port, for ci.As.
func (p *Port) Unwrap() any { return p.inner }

// AddCounters implements rvt.CounterPort.
func (p *Port) AddCounters(m map[string]uint64) {
	for v := Pass; v <= Corrupt; v++ {
		m["impair_"+v.String()] += p.counts[v].Load()
	}
}

// Start starts the inner port.
func (p *Port) Start(c rvt.PortContext) error {
	p.recv, p.lost = c.Receiver, c.Lost
	for d, m := range []Model{rvt.Sent: p.config.Out, rvt.Received: p.config.In} {
		p.lanes[d] = NewLane[rvt.Packet](portLane{p, rvt.Direction(d)}, c.Clock, m,
			rand.New(rand.NewPCG(p.config.Seed, uint64(d))))
	}
	c.Receiver = receiver{c.Receiver, p}
	return p.inner.Start(c)
}

// Send passes packets through the sending lane.
func (p *Port) Send(pkts []rvt.Packet) { p.through(rvt.Sent, pkts, false, false) }

// Hints returns the inner port's, without Lossless.
func (p *Port) Hints() rvt.Hints {
	h := p.inner.Hints()
	h.Lossless = false
	return h
}

// Close drops held packets and closes the inner port.
func (p *Port) Close() error {
	p.live.Lock()
	p.closed = true
	p.live.Unlock()
	for _, l := range p.lanes {
		if l != nil {
			l.Close()
		}
	}
	return p.inner.Close()
}

// through sends trains through a lane, cut into packets.
func (p *Port) through(d rvt.Direction, pkts []rvt.Packet, wait, polled bool) {
	l := p.lanes[d]
	if l == nil {
		return // before Start, as every port
	}
	list := make([]rvt.Packet, 0, train.Count(pkts))
	for i := range pkts {
		for k := range pkts[i].N {
			list = append(list, train.Packet(&pkts[i], k))
		}
	}
	l.Take(list, wait, polled)
}

// receiver is the engine's Receiver behind the receiving lane.
type receiver struct {
	rvt.Receiver
	p *Port
}

// Deliver passes packets through the receiving lane.
func (r receiver) Deliver(pkts []rvt.Packet, wait, polled bool) {
	r.p.through(rvt.Received, pkts, wait, polled)
}

// portLane is the Handler of one direction of a Port.
type portLane struct {
	p   *Port
	dir rvt.Direction
}

func (l portLane) Decide(pkt *rvt.Packet) Verdict {
	if l.p.config.Filter == nil {
		return Chance
	}
	return l.p.config.Filter(l.dir, pkt)
}

func (portLane) Copy(pkt rvt.Packet) rvt.Packet {
	pkt.Payload = slices.Clone(pkt.Payload) // the receiver may change the list
	return pkt
}

func (portLane) Keep(pkt rvt.Packet) rvt.Packet {
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

func (portLane) Flip(pkt *rvt.Packet, bit uint32) bool { return corrupt(pkt, bit) }

func (l portLane) Decided(pkt *rvt.Packet, v Verdict, lost bool) {
	l.p.counts[v].Add(1)
	if !lost {
		return
	}
	reason := "impair_dropped"
	if v == Corrupt {
		reason = "impair_corrupted, drop_icrc"
		l.p.recv.Count(rvt.DropICRC, 1)
	}
	if l.p.lost != nil {
		l.p.lost(rvt.Loss{Direction: l.dir, Packet: pkt, Reason: reason})
	}
}

func (l portLane) Emit(pkts []rvt.Packet, late, wait, polled bool) {
	p := l.p
	if late {
		p.live.RLock()
		defer p.live.RUnlock()
		if p.closed {
			return
		}
	}
	if l.dir == rvt.Sent {
		p.inner.Send(pkts)
	} else {
		p.recv.Deliver(pkts, wait, polled)
	}
}
