package capture

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// A Port passes the packets of another port to a tap.
type Port struct {
	inner
	encoder rvt.EncoderPort
	tap     *Tap

	// Set by Start.

	context rvt.PortContext // of the adapter
	link    ci.Link
	epoch   time.Time
	drops   *dropWatch

	mu    sync.Mutex
	sends []*send // in progress
}

// inner is the port behind a Port.
type inner = rvt.Port

// New returns a port that passes the packets of another port to tap. The new port takes over the other one. Errors: a
// nil port or tap; a port that cannot encode its packets (rvt.EncoderPort). After an error, the port still belongs to
// the caller.
func New(port rvt.Port, tap *Tap) (*Port, error) {
	if ci.IsNil(port) || tap == nil {
		return nil, errors.New("capture: the port or the tap is nil")
	}
	e, ok := ci.As[rvt.EncoderPort](port)
	if !ok {
		return nil, fmt.Errorf("capture: a %T does not show its packets in bytes (rvt.EncoderPort)", port)
	}
	return &Port{inner: port, encoder: e, tap: tap}, nil
}

// Unwrap returns the inner port, for ci.As.
func (p *Port) Unwrap() any { return p.inner }

// Start starts the inner port.
func (p *Port) Start(c rvt.PortContext) error {
	p.context, p.link = c, p.inner.Attr().Link
	p.epoch, p.drops = p.tap.Epoch, p.tap.watch(&c)
	if p.epoch.IsZero() {
		p.epoch = time.Now().Add(-c.Clock.Elapsed())
	}
	c.Receiver = receiver{c.Receiver, p}
	c.Lost = p.lost
	return p.inner.Start(c)
}

// send is a Send in progress.
type send struct{ list []*entry }

// packetKey distinguishes packets that are handled at the same time.
type packetKey struct {
	dest, src ci.QPN
	psn       ci.PSN
	op        wire.Op
}

func keyOf(p *rvt.Packet) packetKey { return packetKey{p.DestQP, p.SrcQP, p.PSN, p.Op} }

// frame returns the frame of a packet.
func (p *Port) frame(d rvt.Direction, data []byte) Frame {
	return Frame{Time: p.epoch.Add(p.context.Clock.Elapsed()), HCA: p.context.Node.GUID, Port: p.context.Num,
		Link: p.link, Direction: d, Data: data}
}

// entries appends the packets of a train to list.
func (p *Port) entries(list []*entry, d rvt.Direction, pkt *rvt.Packet, pending bool) []*entry {
	for k := range pkt.N {
		one := train.Packet(pkt, k)
		if b := p.encoder.EncodeFrame(d, &one); b != nil {
			list = append(list, &entry{Frame: p.frame(d, b), key: keyOf(&one), pending: pending})
		}
	}
	return list
}

// Send passes the packets to the capture and then sends them.
func (p *Port) Send(pkts []rvt.Packet) {
	if !p.tap.on.Load() {
		p.inner.Send(pkts)
		return
	}
	s := &send{}
	for i := range pkts {
		s.list = p.entries(s.list, rvt.Sent, &pkts[i], true)
	}
	p.tap.add(p.context.Clock, s.list)
	p.mu.Lock()
	p.sends = append(p.sends, s)
	p.mu.Unlock()
	defer func() { // even if the port panics: then the packet is the evidence
		p.mu.Lock()
		i := slices.Index(p.sends, s)
		p.sends = slices.Delete(p.sends, i, i+1)
		p.mu.Unlock()
		p.tap.settle(s.list)
	}()
	p.inner.Send(pkts)
}

// lost takes the losses of the inner ports.
func (p *Port) lost(l rvt.Loss) {
	if p.context.Lost != nil {
		p.context.Lost(l)
	}
	if !p.tap.on.Load() {
		return
	}
	if l.Packet == nil {
		e := &entry{Frame: p.frame(l.Direction, l.Frame)}
		e.Drop = l.Reason
		p.tap.add(p.context.Clock, []*entry{e})
		return
	}
	if l.Direction == rvt.Received {
		list := p.entries(nil, rvt.Received, l.Packet, false)
		for _, e := range list {
			e.Drop = l.Reason
		}
		p.tap.add(p.context.Clock, list)
		return
	}
	key := keyOf(l.Packet)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sends {
		for _, e := range s.list {
			// A packet and its retransmission may be handled at once: two losses concern both.
			if e.key == key && p.tap.drop(e, l.Reason) {
				return
			}
		}
	}
}

// receiver is the engine's Receiver behind a capture.
type receiver struct {
	rvt.Receiver
	p *Port
}

// Deliver passes each train to the capture and delivers it.
func (r receiver) Deliver(pkts []rvt.Packet, wait, polled bool) {
	if !r.p.tap.on.Load() {
		r.Receiver.Deliver(pkts, wait, polled)
		return
	}
	for i := range pkts {
		r.deliver(pkts[i:i+1], wait, polled)
	}
}

// deliver delivers one train.
func (r receiver) deliver(pkt []rvt.Packet, wait, polled bool) {
	p := r.p
	list := p.entries(nil, rvt.Received, &pkt[0], true)
	p.tap.add(p.context.Clock, list)
	d := p.drops.begin()
	defer func() { // as in Send
		if reason, n, alone := p.drops.end(d); n > 0 {
			reason = among(reason, int(n), len(list), alone)
			for _, e := range list {
				p.tap.drop(e, reason)
			}
		}
		p.tap.settle(list)
	}()
	r.Receiver.Deliver(pkt, wait, polled)
}

// among words a reason that n of all packets have. For some reasons the engine counts a train that it drops as one
// packet.
func among(reason string, n, all int, alone bool) string {
	switch {
	case !alone:
		return "perhaps " + reason + ": other packets were handled at the same time"
	case n < all:
		return fmt.Sprintf("%s: some of the %d packets that went together, or all", reason, all)
	}
	return reason
}

// Count passes on a count of the inner port. Packets that could not be sent are of a Send in progress.
func (r receiver) Count(c rvt.Counter, n int) {
	r.Receiver.Count(c, n)
	p := r.p
	if c != rvt.DropSendFailed || !p.tap.on.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sends {
		reason := among(c.String(), n, len(s.list), len(p.sends) == 1)
		for _, e := range s.list {
			p.tap.drop(e, reason)
		}
	}
}
