package rocev2

import (
	"net/netip"

	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// EncodeFrame returns a single packet from its IP header to the ICRC. The identification of an IPv4 packet is 0. Of a
// received packet, only a datagram comes with the traffic class, the hop limit and the flow label; others have the mark
// of congestion at most, and DefaultHops. It implements rvt.EncoderPort.
func (m *MultiPort) EncodeFrame(dir rvt.Direction, pkt *rvt.Packet) []byte {
	var f wire.Frame
	if !train.Encode(&f.Packet, pkt) {
		return nil
	}
	var src, dst netip.AddrPort
	class, hops, label := uint8(0), uint8(DefaultHops), uint32(0)
	if dir == rvt.Received {
		src, dst = netip.AddrPortFrom(AddrOf(pkt.Src.GID), pkt.Entropy), netip.AddrPortFrom(AddrOf(pkt.Dst.GID), m.UDP)
		if g, err := wire.ParseGRHArea(pkt.GRH); err == nil {
			class, hops, label = g.TrafficClass, g.HopLimit, g.FlowLabel
		} else if pkt.CE {
			class = 3
		}
	} else if r, ok := pkt.Route.(*Route); ok && r.port != nil {
		src = netip.AddrPortFrom(r.port.Addr, r.of(pkt).Src)
		dst, class = r.Dst, r.Key.Class
		hops, label = r.Key.HopLimit, r.Key.Label
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
		f.IP4 = wire.IPv4{TOS: class, Frag: wire.IPv4DontFragment, TTL: hops, Src: src.Addr().As4(),
			Dst: dst.Addr().As4()}
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

// appendHeaders returns the UDP payload that a socket delivered, with IP and UDP headers in front.
func appendHeaders(src, dst netip.AddrPort, payload []byte) []byte {
	var f wire.Frame
	setFlow(&f, src, dst, 0, DefaultHops)
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

// AppendHeaders appends IP and UDP headers of a packet of n bytes, BTH to ICRC, without a UDP checksum.
func (r *Route) AppendHeaders(b []byte, src netip.Addr, n int, id uint16) []byte {
	var h [wire.IPv6Len + wire.UDPLen]byte
	ip := wire.IPv6Len
	if r.Dst.Addr().Is4() {
		ip = wire.IPv4Len
		v4 := wire.IPv4{TOS: r.Key.Class, TotalLen: uint16(wire.IPv4Len + wire.UDPLen + n), ID: id,
			Frag: wire.IPv4DontFragment,
			TTL:  r.Key.HopLimit, Protocol: wire.ProtocolUDP, Src: src.As4(), Dst: r.Dst.Addr().As4()}
		v4.SetChecksum()
		v4.Put(h[:])
	} else {
		v6 := wire.IPv6{TrafficClass: r.Key.Class, FlowLabel: r.Key.Label, PayloadLen: uint16(wire.UDPLen + n),
			NextHeader: wire.ProtocolUDP, HopLimit: r.Key.HopLimit,
			Src: src.As16(), Dst: r.Dst.Addr().As16()}
		v6.Put(h[:])
	}
	udp := wire.UDP{SrcPort: r.Src, DstPort: r.Dst.Port(), Length: uint16(wire.UDPLen + n)}
	udp.Put(h[ip:])
	return append(b, h[:ip+wire.UDPLen]...)
}
