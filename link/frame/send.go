package frame

import (
	"slices"

	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// A sender makes frames of packets. It keeps its memory.
type sender struct {
	batch
	packet wire.Packet
}

// maxBatch is the most bytes of frames that are passed to the carrier at once.
const maxBatch = 256 << 10

// Send cuts trains into packets and sends them. Packets for neighbors that are being resolved wait for that.
func (p *Port) Send(pkts []rvt.Packet) {
	c := p.context.Load()
	if c == nil {
		return // no receiver counts losses before Start
	}
	if !p.isActive() {
		c.Receiver.Count(rvt.DropSendFailed, train.Count(pkts))
		return
	}
	s := p.senders.Get().(*sender)
	defer p.senders.Put(s)
	for i := range pkts {
		r, ok := pkts[i].Route.(*route)
		if !ok || r.port != p || !train.IsWhole(&pkts[i]) {
			c.Receiver.Count(rvt.DropSendFailed, int(max(pkts[i].N, 1))) // an error of the engine
			continue
		}
		p.sendTrain(s, &pkts[i], r)
	}
	p.flush(s)
}

// flush passes the frames that were made to the carrier.
func (p *Port) flush(s *sender) {
	if len(s.ends) > 0 {
		p.emit(s.frames())
		s.reset()
	}
}

// sendTrain makes the frames of a train.
func (p *Port) sendTrain(s *sender, pkt *rvt.Packet, r *route) {
	mac, ready := r.mac, true
	if r.near != nil {
		mac, ready = r.near.use()
	}
	if !ready {
		p.flush(s) // the frames in s have other destinations
	}
	train.PutHeaders(&s.packet, pkt)
	src := p.MAC()
	at := cursor{segs: pkt.Payload}
	for k := range pkt.N {
		if !train.PutBTH(&s.packet.BTH, pkt, k) {
			p.context.Load().Receiver.Count(rvt.DropSendFailed, int(pkt.N-k))
			break
		}
		n := int(pkt.MTU)
		if k+1 == pkt.N {
			n = int(pkt.Len - k*pkt.MTU)
		}
		s.append(r, src, mac, &at, n, uint16(p.id.Add(1)))
		if ready && len(s.bytes) > maxBatch {
			p.flush(s)
		}
	}
	if !ready {
		p.arp.hold(r.near, s.frames())
		s.reset()
	}
}

// append makes the frame of the packet whose headers are in s.packet, with n bytes of payload from at.
func (s *sender) append(r *route, src, dst [6]byte, at *cursor, n int, id uint16) {
	w := &s.packet
	w.BTH.Pad = wire.PadLen(n)
	size := wire.PacketLen(w.BTH.Opcode, n)
	front := r.headerLen()
	from := len(s.bytes)
	s.bytes = slices.Grow(s.bytes, front+size)[:from+front+size]
	b := s.bytes[from:]
	icrc := r.putHeaders(b, src, dst, size, id)
	b = b[front:]
	h := w.PutHeaders(b)
	at.copy(b[h : h+n])
	end := len(b) - wire.ICRCLen
	clear(b[h+n : end])
	icrc.Transport(b[:end]).Put(b[end:])
	s.end()
}

// A cursor is a place in a gather list.
type cursor struct {
	segs [][]byte
	off  int // in segs[0]
}

// copy fills dst with the bytes that follow.
func (c *cursor) copy(dst []byte) {
	for len(dst) > 0 && len(c.segs) > 0 {
		k := copy(dst, c.segs[0][c.off:])
		dst, c.off = dst[k:], c.off+k
		if c.off == len(c.segs[0]) {
			c.segs, c.off = c.segs[1:], 0
		}
	}
}

// EncodeFrame returns a single packet from its IP header, or from its GRH, to the ICRC. The identification of an IPv4
// packet is 0. Of a received packet, only a datagram comes with the traffic class, the hop limit and the flow label;
// others have none, and hop limit 64. It implements rvt.EncoderPort.
func (p *Port) EncodeFrame(d rvt.Direction, pkt *rvt.Packet) []byte {
	r, ok := pkt.Route.(*route)
	if d == rvt.Received {
		r, ok = receivedRoute(pkt), true
	}
	if !ok || !train.IsWhole(pkt) {
		return nil
	}
	s := new(sender)
	train.PutHeaders(&s.packet, pkt)
	if !train.PutBTH(&s.packet.BTH, pkt, 0) {
		return nil
	}
	s.append(r, [6]byte{}, [6]byte{}, &cursor{segs: pkt.Payload}, int(pkt.Len), 0)
	return s.bytes[wire.EthernetLen:]
}
