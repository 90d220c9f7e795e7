package join

import (
	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// LID ranges (IBTA volume 1, 4.1.3).
const (
	firstMulticastLID ci.LID = 0xc000
	permissiveLID     ci.LID = 0xffff
)

// deliver passes a packet of the fabric to the adapter.
func (p *Port) deliver(b []byte) {
	if !p.started.Load() || p.closed.Load() {
		return
	}
	drop, ok := p.in.parse(b)
	if !ok {
		p.invalid.Add(1)
		p.recv.Count(drop, 1)
		return
	}
	p.received.Add(1)
	x := &p.in.pkt[0]
	if x.Dst.LID < firstMulticastLID {
		x.PathBits = uint8(x.Dst.LID) & (1<<p.attr.Load().LMC - 1)
	}
	if p.in.w.Global() {
		x.Dst.GID = ci.GID(p.in.w.GRH.DGID)
		if p.in.w.Packet.BTH.Opcode.HasDETH() {
			x.GRH = b[wire.LRHLen : wire.LRHLen+wire.GRHLen]
		}
	}
	p.recv.Deliver(p.in.pkt[:], true, false)
}

// EncodeFrame returns a single packet, LRH to VCRC. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	var a addresser = sentAddress{}
	if d == rvt.Received {
		a = receivedAddress{}
	}
	var w wire.LinkPacket
	if !a.address(&w, pkt) || !train.Encode(&w.Packet, pkt) {
		return nil
	}
	return wire.AppendLinkPacket(nil, &w)
}
