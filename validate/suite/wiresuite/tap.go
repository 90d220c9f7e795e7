package wiresuite

import (
	"context"
	"encoding/binary"
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/wire"
)

// tap is a fault at the wire. It stands between the adapter and the certifier's end of the link, and changes packets on their way: to the
// certifier, adapter and tap together are one adapter that is wrong in one way.
type tap struct {
	leaves func(*qpView, *outgoing) action        // each packet that leaves
	enters func(*qpView, *outgoing, error) action // each that comes; the error is why it is no right packet
	modify func(ci.QPField, *ci.QPAttr)           // what QPs are modified to
}

// action is what becomes of a packet at a tap.
type action uint8

const (
	asIs action = iota
	changed
	gone
)

// qpView is what a tap remembers of a QP of the adapter, by its number or by that of its peer.
type qpView struct {
	*tapped
	num, dest uint32
	state     ci.QPState
	qkey      uint32

	due    uint32         // next PSN that is expected to come
	came   map[uint32]int // requests that came, by PSN
	newest uint32         // PSN of the newest request that left
	left   map[uint32]int // requests that left, by PSN
	reth   wire.RETH      // of the newest READ that left
	first  uint32         // and its PSN
	inside bool           // a message is coming
	shift  int            // PSNs by which the adapter is ahead of what the certifier knows
	orig   map[uint32]uint64
	flag   int // of the fault
	held   []*outgoing
	last   *outgoing // of the fault
}

// tapped is a Target under a tap.
type tapped struct {
	tap
	mu   sync.Mutex
	qps  map[uint32]*qpView
	none *qpView // of packets to and from no QP known
	end  *tappedWire
}

// over gives what mutant.Mutant.Target wants.
func (f tap) over() func(*validate.Target) {
	return func(t *validate.Target) {
		d := &tapped{tap: f, qps: map[uint32]*qpView{}}
		d.none = d.view(0)
		delete(d.qps, 0)
		for i, h := range t.HCAs {
			t.HCAs[i] = ciwrap.Wrap(h, ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return tappedQP{ciwrap.QP{QP: q}, d} }})
		}
		open := t.Wire
		if open == nil {
			return
		}
		t.Wire = func() (validate.Wire, error) {
			w, err := open()
			if err != nil {
				return nil, err
			}
			e := &tappedWire{Wire: w, d: d, info: w.Info()}
			d.mu.Lock()
			d.end = e
			d.mu.Unlock()
			return e, nil
		}
	}
}

func (d *tapped) view(num uint32) *qpView {
	if v := d.qps[num]; v != nil {
		return v
	}
	v := &qpView{tapped: d, num: num, came: map[uint32]int{}, left: map[uint32]int{}, orig: map[uint32]uint64{}}
	d.qps[num] = v
	return v
}

// tappedQP learns what a QP is told.
type tappedQP struct {
	ciwrap.QP
	d *tapped
}

func (q tappedQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if q.d.modify != nil {
		q.d.modify(set, &a)
	}
	err := q.QP.Modify(set, a)
	if err != nil {
		return err
	}
	q.d.mu.Lock()
	defer q.d.mu.Unlock()
	v := q.d.view(uint32(q.Num()))
	if set&ci.QPFieldState != 0 {
		v.state = a.State
	}
	if set&ci.QPFieldDestNum != 0 {
		v.dest = uint32(a.DestNum)
	}
	if set&ci.QPFieldQKey != 0 {
		v.qkey = uint32(a.QKey)
	}
	if set&ci.QPFieldRQPSN != 0 {
		v.due = uint32(a.RQPSN)
	}
	if set&ci.QPFieldSQPSN != 0 {
		v.newest = wire.PSNAdd(uint32(a.SQPSN), -1)
	}
	if v.state == ci.QPRTS && q.d.end != nil {
		for _, o := range v.held {
			if err := q.d.end.Wire.Send(o.bytes(&q.d.end.info)); err != nil {
				return err
			}
		}
		v.held = nil
	}
	return nil
}

// tappedWire is the end of the link behind a tap.
type tappedWire struct {
	validate.Wire
	d     *tapped
	info  validate.WireInfo
	queue [][]byte // packets that the fault makes; under d.mu
}

// inject has a packet come from the adapter that it did not send. The lock is held.
func (d *tapped) inject(o *outgoing) { d.end.queue = append(d.end.queue, o.bytes(&d.end.info)) }

// answer is a packet from a QP to its peer.
func (v *qpView) answer(to *outgoing, op wire.Opcode, psn uint32, a wire.AETH) *outgoing {
	o := &outgoing{src: to.dst, dst: to.src, slid: to.dlid, dlid: to.slid, sport: to.sport, class: to.class, hops: to.hops, label: to.label}
	if to.grh != nil {
		o.grh = &wire.GRH{HopLimit: 64, SGID: to.grh.DGID, DGID: to.grh.SGID}
	}
	o.BTH = wire.BTH{Opcode: op, PKey: to.BTH.PKey, DestQP: v.dest, PSN: psn & wire.Mask24}
	o.AETH = a
	return o
}

// again makes an outgoing packet of one that was taken.
func again(info *validate.WireInfo, p *packet, err error) *outgoing {
	o := &outgoing{Packet: p.Packet, src: p.src, sport: p.sport, padding: p.Padding, came: p.whole}
	if err == nil {
		pad := p.BTH.Pad
		o.pad = &pad
	}
	b := p.whole
	switch {
	case info.Link == ci.LinkInfiniBand:
		o.slid, o.dlid = ci.LID(binary.BigEndian.Uint16(b[6:])), ci.LID(binary.BigEndian.Uint16(b[2:]))
		o.vl, o.sl = b[0]>>4, b[1]>>4
		if p.at > lrhLen {
			g := b[lrhLen:]
			o.grh = &wire.GRH{SGID: [16]byte(g[8:]), DGID: [16]byte(g[24:])}
			o.grh.TrafficClass, o.grh.HopLimit, o.grh.FlowLabel = ipFields(g)
		}
		return o
	case b[0]>>4 == 4:
		o.dst = ci.GID{10: 0xff, 11: 0xff}
		copy(o.dst[12:], b[16:20])
	default:
		copy(o.dst[:], b[24:40])
	}
	o.class, o.hops, o.label = ipFields(b)
	return o
}

// with gives the packet another payload, with the pad that it needs.
func (o *outgoing) with(payload []byte) {
	o.Payload, o.pad, o.padding = payload, nil, nil
}

// Send is the way in.
func (w *tappedWire) Send(b []byte) error {
	p, err := take(&w.info, b)
	if p.at < 0 && w.d.enters == nil {
		return w.Wire.Send(b)
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	act := asIs
	var o *outgoing
	if p.at >= 0 {
		v := w.d.qps[p.BTH.DestQP]
		if v == nil {
			v = w.d.none
		}
		o = again(&w.info, p, err)
		if w.d.enters != nil {
			act = w.d.enters(v, o, err)
		}
		v.arrived(p, err)
	} else if w.d.enters != nil {
		act = w.d.enters(w.d.none, nil, err)
	}
	switch act {
	case gone:
		return nil
	case changed:
		b = o.bytes(&w.info)
	}
	return w.Wire.Send(b)
}

// arrived remembers a request that came.
func (v *qpView) arrived(p *packet, err error) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	if err != nil || !op.Request() {
		return
	}
	v.came[psn]++
	if psn != v.due {
		return
	}
	n := 1
	if op.Op() == wire.OpReadRequest {
		n = max((int(p.RETH.DMALen)+1023)/1024, 1) // the software adapter's path MTU in this program
	}
	v.due = wire.PSNAdd(psn, n)
	v.inside = !op.End()
}

// Recv is the way out.
func (w *tappedWire) Recv(ctx context.Context) ([]byte, error) {
	for {
		w.d.mu.Lock()
		if len(w.queue) > 0 {
			b := w.queue[0]
			w.queue = w.queue[1:]
			w.d.mu.Unlock()
			return b, nil
		}
		w.d.mu.Unlock()
		b, err := w.Wire.Recv(ctx)
		if err != nil {
			return nil, err
		}
		if b = w.out(b); b != nil {
			return b, nil
		}
	}
}

// out gives what leaves in the place of a packet, nil for nothing.
func (w *tappedWire) out(b []byte) []byte {
	p, err := take(&w.info, b)
	if err != nil {
		return b
	}
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	v := w.d.none
	for _, x := range w.d.qps {
		if x.dest == p.BTH.DestQP {
			v = x
		}
	}
	o, act := again(&w.info, p, nil), asIs
	if w.d.leaves != nil {
		act = w.d.leaves(v, o)
	}
	if p.BTH.Opcode.Request() {
		v.left[p.BTH.PSN]++
		if wire.PSNDiff(p.BTH.PSN, v.newest) > 0 {
			v.newest = p.BTH.PSN
			if p.BTH.Opcode.Op() == wire.OpReadRequest {
				v.reth, v.first = p.RETH, p.BTH.PSN
			}
		}
	}
	switch act {
	case gone:
		return nil
	case changed:
		return o.bytes(&w.info)
	}
	return b
}

// fault makes a mutant of a tap.
func fault(name, breaks, does string, f tap) mutant.Mutant {
	return mutant.Mutant{Name: "wire." + name, Area: "wire", Breaks: breaks, Does: does, Link: "udp", Target: f.over()}
}

// on has a fault show itself on another link than udp.
func on(link string, m mutant.Mutant) mutant.Mutant {
	m.Link = link
	return m
}

// needing adds claims without which a fault cannot show.
func needing(caps ci.Caps, m mutant.Mutant) mutant.Mutant {
	m.Needs = caps
	return m
}
