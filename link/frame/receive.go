package frame

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// decodePackets is the most packets that are delivered together.
const decodePackets = 256

// A decoder turns frames into packets for the engine. Payload stays where it is, so a batch is delivered before the
// frames' memory is used again. A decoder is used by one goroutine.
type decoder struct {
	port *Port
	c    *rvt.PortContext
	f    wire.Frame
	n    int
	pkts [decodePackets]rvt.Packet
	segs [decodePackets][1][]byte
	grh  [decodePackets][wire.GRHAreaLen]byte
}

func newDecoder(p *Port) *decoder { return &decoder{port: p, c: p.context.Load()} }

// frames decodes and delivers frames.
func (d *decoder) frames(list [][]byte) {
	for _, b := range list {
		d.frame(b)
	}
	d.deliver()
}

func (d *decoder) deliver() {
	if d.n > 0 {
		d.c.Receiver.Deliver(d.pkts[:d.n], true, false)
		d.n = 0
	}
}

// frame decodes a frame, or passes it on as a raw frame.
func (d *decoder) frame(b []byte) {
	p := d.port
	if len(b) < wire.EthernetLen || !p.isActive() {
		d.c.Receiver.Count(rvt.DropMalformed, 1)
		return
	}
	p.stats.received.Add(1)
	mine := isFor(b, p.MAC()) || isGroup(b)
	if mine && p.arp != nil && p.arp.receive(b) {
		return
	}
	typ, gid, ok := roceDestination(b)
	if !mine || !ok || !p.takes(gid, typ) {
		if fn := p.raw.Load(); fn != nil {
			p.stats.raw.Add(1)
			(*fn)(b)
		} else if mine && ok {
			d.c.Receiver.Count(rvt.DropNotForUs, 1)
		}
		return
	}
	if wire.ParseFrame(b, &d.f) != nil {
		d.refuse(rvt.DropMalformed, b)
		return
	}
	if d.f.CheckICRC() != nil {
		d.refuse(rvt.DropICRC, b)
		return
	}
	d.take(typ)
}

// takes reports whether packets for a GID are the port's.
func (p *Port) takes(gid ci.GID, typ ci.GIDType) bool {
	return p.table.Load().has(gid, typ) || addrOf(gid).IsMulticast() && p.isMember(gid)
}

// refuse counts a dropped packet.
func (d *decoder) refuse(c rvt.Counter, b []byte) {
	d.c.Receiver.Count(c, 1)
	if d.c.Lost != nil {
		d.c.Lost(rvt.Loss{Direction: rvt.Received, Frame: append([]byte(nil), b[wire.EthernetLen:]...),
			Reason: c.String()})
	}
}

// take adds the packet in d.f to the batch.
func (d *decoder) take(typ ci.GIDType) {
	if d.n == decodePackets {
		d.deliver()
	}
	p := &d.pkts[d.n]
	*p = rvt.Packet{EtherType: d.f.Eth.EtherType}
	p.Src.GID, p.Dst.GID = d.addresses()
	if typ == ci.GIDRoCEv2 {
		p.Entropy = d.f.UDP.SrcPort
		p.CE = wire.IsCE(d.f.IP4.TOS)
		if d.f.Eth.EtherType == wire.EtherTypeIPv6 {
			p.CE = wire.IsCE(d.f.IP6.TrafficClass)
		}
	}
	train.TakeHeaders(p, &d.f.Packet)
	if len(d.f.Packet.Payload) > 0 {
		d.segs[d.n][0] = d.f.Packet.Payload
		p.Payload = d.segs[d.n][:]
	}
	if d.f.Packet.BTH.Opcode.HasDETH() {
		p.GRH = d.grh[d.n][:]
		switch d.f.Eth.EtherType {
		case wire.EtherTypeIPv4:
			wire.PutGRHArea4(p.GRH, &d.f.IP4)
		case wire.EtherTypeIPv6:
			wire.PutGRHArea6(p.GRH, &d.f.IP6)
		default:
			d.f.GRH.Put(p.GRH)
		}
	}
	d.n++
}

// addresses returns source and destination of the packet in d.f.
func (d *decoder) addresses() (src, dst ci.GID) {
	switch d.f.Eth.EtherType {
	case wire.EtherTypeIPv4:
		return wire.GIDFromIPv4(d.f.IP4.Src), wire.GIDFromIPv4(d.f.IP4.Dst)
	case wire.EtherTypeIPv6:
		return d.f.IP6.Src, d.f.IP6.Dst
	}
	return d.f.GRH.SGID, d.f.GRH.DGID
}

// roceDestination returns the destination of a RoCE frame. ok is false for other frames, and for those with a VLAN tag.
func roceDestination(b []byte) (typ ci.GIDType, gid ci.GID, ok bool) {
	l3 := b[wire.EthernetLen:]
	switch binary.BigEndian.Uint16(b[12:]) {
	case wire.EtherTypeRoCEv1:
		if len(l3) >= wire.GRHLen {
			return ci.GIDRoCEv1, ci.GID(l3[24:]), true
		}
	case wire.EtherTypeIPv4:
		if len(l3) < wire.IPv4Len+wire.UDPLen || l3[9] != wire.ProtocolUDP {
			return 0, gid, false
		}
		h := int(l3[0]&15) * 4
		if h < wire.IPv4Len || len(l3) < h+wire.UDPLen || binary.BigEndian.Uint16(l3[h+2:]) != wire.RoCEv2Port {
			return 0, gid, false
		}
		return ci.GIDRoCEv2, wire.GIDFromIPv4([4]byte(l3[16:])), true
	case wire.EtherTypeIPv6:
		if len(l3) >= wire.IPv6Len+wire.UDPLen && l3[6] == wire.ProtocolUDP &&
			binary.BigEndian.Uint16(l3[wire.IPv6Len+2:]) == wire.RoCEv2Port {
			return ci.GIDRoCEv2, ci.GID(l3[24:]), true
		}
	}
	return 0, gid, false
}

// receivedRoute returns a route with the headers that a received packet had, as far as it comes with them.
func receivedRoute(pkt *rvt.Packet) *route {
	r := &route{src: pkt.Src.GID, dst: pkt.Dst.GID, typ: ci.GIDRoCEv2, hops: defaultHops, udp: pkt.Entropy}
	if g, err := wire.ParseGRHArea(pkt.GRH); err == nil {
		r.class, r.hops, r.label = g.TrafficClass, g.HopLimit, g.FlowLabel
	}
	if pkt.EtherType == wire.EtherTypeRoCEv1 {
		r.typ = ci.GIDRoCEv1
		return r
	}
	if r.is4() {
		r.flow4 = wire.NewFlow4([4]byte(r.src[12:]), [4]byte(r.dst[12:]), r.udp, wire.RoCEv2Port, wire.IPv4DontFragment)
	} else {
		r.flow6 = wire.NewFlow6(r.src, r.dst, r.udp, wire.RoCEv2Port)
	}
	return r
}
