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

// tap is a fault at the wire. It stands between the adapter and the certifier's end of the link and changes packets. To
// the certifier, adapter and tap together are one adapter with one fault.
type tap struct {
	leaves func(*view, *outgoing) action        // called for each sent packet
	enters func(*view, *outgoing, error) action // called for each received packet; the error is that of take
	modify func(ci.QPField, *ci.QPAttr)         // called for each Modify of a QP
}

// action is what a tap does with a packet.
type action uint8

const (
	asIs action = iota
	changed
	dropped
)

// view is the state that a tap keeps of a QP of the adapter, found by its number or by that of its peer.
type view struct {
	*device
	num, dest uint32
	state     ci.QPState
	qkey      uint32

	due      uint32         // next expected PSN
	inCount  map[uint32]int // number of received requests by PSN
	newest   uint32         // PSN of the newest sent request
	outCount map[uint32]int // number of sent requests by PSN
	reth     wire.RETH      // RETH of the newest sent READ
	first    uint32         // PSN of the newest sent READ
	inside   bool           // whether a received message is in progress
	shift    int            // PSNs by which the adapter is ahead of the certifier
	orig     map[uint32]uint64
	flag     int // state of the fault
	held     []*outgoing
	last     *outgoing // state of the fault
}

// device is a Target with a tap.
type device struct {
	tap
	mu   sync.Mutex
	qps  map[uint32]*view
	none *view // for packets of unknown QPs
	end  *wireTap
}

// over returns a value for mutant.Mutant.Target.
func (t tap) over() func(*validate.Target) {
	return func(target *validate.Target) {
		d := &device{tap: t, qps: map[uint32]*view{}}
		d.none = d.view(0)
		delete(d.qps, 0)
		for i, h := range target.HCAs {
			target.HCAs[i] = ciwrap.Wrap(h,
				ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return qpTap{ciwrap.QP{QP: q}, d} }})
		}
		open := target.Wire
		if open == nil {
			return
		}
		target.Wire = func() (validate.Wire, error) {
			w, err := open()
			if err != nil {
				return nil, err
			}
			e := &wireTap{Wire: w, d: d, info: w.Info()}
			d.mu.Lock()
			d.end = e
			d.mu.Unlock()
			return e, nil
		}
	}
}

func (d *device) view(num uint32) *view {
	if v := d.qps[num]; v != nil {
		return v
	}
	v := &view{device: d, num: num, inCount: map[uint32]int{}, outCount: map[uint32]int{}, orig: map[uint32]uint64{}}
	d.qps[num] = v
	return v
}

// qpTap records the attributes that Modify sets.
type qpTap struct {
	ciwrap.QP
	d *device
}

func (q qpTap) Modify(set ci.QPField, a ci.QPAttr) error {
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

// wireTap is the certifier's end of the link with a tap.
type wireTap struct {
	validate.Wire
	d     *device
	info  validate.WireInfo
	queue [][]byte // packets that the fault creates; guarded by d.mu
}

// inject queues a packet as one from the adapter, which has not sent it. The caller holds d.mu.
func (d *device) inject(o *outgoing) { d.end.queue = append(d.end.queue, o.bytes(&d.end.info)) }

// answer returns a packet from a QP to its peer.
func (v *view) answer(to *outgoing, op wire.Opcode, psn uint32, a wire.AETH) *outgoing {
	o := &outgoing{
		src:   to.dst,
		dst:   to.src,
		slid:  to.dlid,
		dlid:  to.slid,
		sport: to.sport,
		class: to.class,
		hops:  to.hops,
		label: to.label,
	}
	if to.grh != nil {
		o.grh = &wire.GRH{HopLimit: 64, SGID: to.grh.DGID, DGID: to.grh.SGID}
	}
	o.BTH = wire.BTH{Opcode: op, PKey: to.BTH.PKey, DestQP: v.dest, PSN: psn & wire.Mask24}
	o.AETH = a
	return o
}

// rebuild returns an outgoing packet with the contents of a parsed one.
func rebuild(info *validate.WireInfo, p *packet, err error) *outgoing {
	o := &outgoing{Packet: p.Packet, src: p.src, sport: p.sport, padding: p.Padding, original: p.whole}
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

// with replaces the payload and sets the pad that it needs.
func (o *outgoing) with(payload []byte) {
	o.Payload, o.pad, o.padding = payload, nil, nil
}

// Send passes a packet to the adapter.
func (w *wireTap) Send(b []byte) error {
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
		o = rebuild(&w.info, p, err)
		if w.d.enters != nil {
			act = w.d.enters(v, o, err)
		}
		v.arrived(p, err)
	} else if w.d.enters != nil {
		act = w.d.enters(w.d.none, nil, err)
	}
	switch act {
	case dropped:
		return nil
	case changed:
		b = o.bytes(&w.info)
	}
	return w.Wire.Send(b)
}

// arrived records a received request.
func (v *view) arrived(p *packet, err error) {
	op, psn := p.BTH.Opcode, p.BTH.PSN
	if err != nil || !op.Request() {
		return
	}
	v.inCount[psn]++
	if psn != v.due {
		return
	}
	n := 1
	if op.Op() == wire.OpReadRequest {
		n = max((int(p.RETH.DMALen)+1023)/1024, 1) // path MTU of the software adapter in this program
	}
	v.due = wire.PSNAdd(psn, n)
	v.inside = !op.End()
}

// Recv returns the next packet from the adapter.
func (w *wireTap) Recv(ctx context.Context) ([]byte, error) {
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

// out returns the packet that replaces a sent packet, or nil if it is dropped.
func (w *wireTap) out(b []byte) []byte {
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
	o, act := rebuild(&w.info, p, nil), asIs
	if w.d.leaves != nil {
		act = w.d.leaves(v, o)
	}
	if p.BTH.Opcode.Request() {
		v.outCount[p.BTH.PSN]++
		if wire.PSNDiff(p.BTH.PSN, v.newest) > 0 {
			v.newest = p.BTH.PSN
			if p.BTH.Opcode.Op() == wire.OpReadRequest {
				v.reth, v.first = p.RETH, p.BTH.PSN
			}
		}
	}
	switch act {
	case dropped:
		return nil
	case changed:
		return o.bytes(&w.info)
	}
	return b
}

// fault returns a mutant with the tap.
func fault(name, breaks, does string, f tap) mutant.Mutant {
	return mutant.Of("wire."+name, breaks, does, nil).On("udp").Changing(f.over())
}

// on sets a link other than udp, on which the fault is visible.
func on(link string, m mutant.Mutant) mutant.Mutant {
	m.Link = link
	return m
}

// needing adds capabilities without which the fault is not visible.
func needing(caps ci.Caps, m mutant.Mutant) mutant.Mutant {
	m.Needs = caps
	return m
}
