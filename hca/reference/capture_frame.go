package reference

import (
	"encoding/binary"
	"net/netip"

	"ciddk/rvt"
	"ciddk/wire"
)

// frameCoder encodes a single packet as a port's wire shows it; nil if no encoding exists.
type frameCoder interface {
	encode(d Dir, p *rvt.Packet) []byte
}

// wirePacket gives a single packet the form of package wire, without ICRC.
func wirePacket(w *wire.Packet, p *rvt.Packet) bool {
	putTrain(w, p)
	if !putBTH(&w.BTH, p, 0, true) {
		return false
	}
	w.Payload = make([]byte, 0, p.Len)
	for _, b := range p.Payload {
		w.Payload = append(w.Payload, b...)
	}
	return uint32(len(w.Payload)) == p.Len
}

// udpCoder makes IP packets.
type udpCoder struct{ port *udpPort }

func (c udpCoder) encode(d Dir, p *rvt.Packet) []byte {
	var f wire.Frame
	if !wirePacket(&f.Packet, p) {
		return nil
	}
	src := netip.AddrPortFrom(c.port.addr, c.port.udp)
	var dst netip.AddrPort
	class, hops, label := uint8(0), uint8(defaultHops), uint32(0)
	if d == In {
		src, dst = netip.AddrPortFrom(addrOf(p.Src.GID), p.Entropy), netip.AddrPortFrom(addrOf(p.Dst.GID), c.port.udp)
	} else if r, ok := p.Route.(*udpRoute); ok {
		src = netip.AddrPortFrom(src.Addr(), r.of(p).src)
		dst, class, hops = r.dst, r.key.class, r.key.hop
		label = r.key.label
	} else {
		return nil
	}
	if src.Addr().Is4() != dst.Addr().Is4() {
		return nil
	}
	setFlow(&f, src, dst, class, hops)
	f.IP6.FlowLabel = label
	return sumUDP(wire.AppendIP(nil, &f))
}

// setFlow fills in the addresses of a RoCEv2 packet.
func setFlow(f *wire.Frame, src, dst netip.AddrPort, class, hops uint8) {
	f.UDP = wire.UDP{SrcPort: src.Port(), DstPort: dst.Port()}
	if dst.Addr().Is4() {
		f.Eth.EtherType = wire.EtherTypeIPv4
		f.IP4 = wire.IPv4{TOS: class, Frag: wire.IPv4DontFragment, TTL: hops, Src: src.Addr().As4(), Dst: dst.Addr().As4()}
		return
	}
	f.Eth.EtherType = wire.EtherTypeIPv6
	f.IP6 = wire.IPv6{TrafficClass: class, HopLimit: hops, Src: src.Addr().As16(), Dst: dst.Addr().As16()}
}

// sumUDP sets the UDP checksum of an IP packet, as the system does.
func sumUDP(b []byte) []byte {
	var sum uint16
	u := b[wire.IPv4Len:]
	if b[0]>>4 == 4 {
		sum = wire.UDPChecksum4([4]byte(b[12:]), [4]byte(b[16:]), u)
	} else {
		u = b[wire.IPv6Len:]
		sum = wire.UDPChecksum6([16]byte(b[8:]), [16]byte(b[24:]), u)
	}
	u[6], u[7] = byte(sum>>8), byte(sum)
	return b
}

// rawDatagram gives what a socket delivered its IP and UDP headers back.
func rawDatagram(src, dst netip.AddrPort, payload []byte) []byte {
	var f wire.Frame
	setFlow(&f, src, dst, 0, defaultHops)
	f.UDP.Length = uint16(wire.UDPLen + len(payload))
	var h [wire.IPv6Len + wire.UDPLen]byte
	n := wire.IPv6Len
	if dst.Addr().Is4() {
		n = wire.IPv4Len
		f.IP4.Protocol, f.IP4.TotalLen = wire.ProtocolUDP, uint16(n)+f.UDP.Length
		f.IP4.SetChecksum()
		f.IP4.Put(h[:])
	} else {
		f.IP6.NextHeader, f.IP6.PayloadLen = wire.ProtocolUDP, f.UDP.Length
		f.IP6.Put(h[:])
	}
	f.UDP.Put(h[n:])
	return sumUDP(append(append([]byte(nil), h[:n+wire.UDPLen]...), payload...))
}

// managementVL carries subnet management datagrams and nothing else (IBTA volume 1, 7.6.4).
const managementVL = 15

// directCoder makes packets of an InfiniBand link.
type directCoder struct{ port *directPort }

func (c directCoder) encode(d Dir, p *rvt.Packet) []byte {
	w := wire.LinkPacket{LRH: wire.LRH{LNH: wire.LNHLocal, SL: uint8(p.SL), SLID: uint16(p.Src.LID), DLID: uint16(p.Dst.LID)}}
	if !wirePacket(&w.Packet, p) {
		return nil
	}
	if p.DestQP == 0 {
		w.LRH.VL = managementVL
	}
	if d == In {
		c.receivedGRH(&w, p)
		return wire.AppendLinkPacket(nil, &w)
	}
	r, ok := p.Route.(*directRoute)
	if !ok {
		return nil
	}
	slid, _ := r.from.lids()
	w.LRH.SL, w.LRH.SLID, w.LRH.DLID = uint8(r.sl), uint16(slid)|uint16(r.bits), uint16(r.dlid)
	if r.global {
		w.LRH.LNH, w.GRH = wire.LNHGlobal, r.grh
	}
	return wire.AppendLinkPacket(nil, &w)
}

// receivedGRH finds the GRH of a packet received: it comes with a datagram, while of other packets the port only says where they were
// addressed to. Their sender's GID is the one at index 0 of the port that has their source LID.
func (c directCoder) receivedGRH(w *wire.LinkPacket, p *rvt.Packet) {
	if g := p.GRH; len(g) >= wire.GRHLen {
		first := binary.BigEndian.Uint32(g)
		w.LRH.LNH = wire.LNHGlobal
		w.GRH = wire.GRH{TrafficClass: uint8(first >> 20), FlowLabel: first & wire.MaskFlowLabel, NextHeader: wire.NextHeaderIBA, HopLimit: g[7],
			SGID: [16]byte(g[8:24]), DGID: [16]byte(g[24:40])}
		return
	}
	if p.Dst.GID == (rvt.Addr{}).GID {
		return
	}
	from := c.port.link.now().byLID[p.Src.LID]
	if from == nil {
		return
	}
	sgid, _ := from.gid(0)
	w.LRH.LNH, w.GRH = wire.LNHGlobal, wire.GRH{NextHeader: wire.NextHeaderIBA, SGID: sgid, DGID: p.Dst.GID}
}
