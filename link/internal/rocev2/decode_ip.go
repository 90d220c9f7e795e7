package rocev2

import (
	"encoding/binary"
	"net/netip"

	"ciddk/rvt"
	"ciddk/wire"
)

// RawIP decodes an IPv4 packet from a raw socket, or a train that the system did not split (several packets of one
// length, except the last, in one: segmentation offload of a sender on this machine, or receive offload). All bits of
// the ICRC count. RawIP ignores packets with another destination than at.
func (d *Decoder) RawIP(b []byte, at netip.AddrPort) {
	var ip wire.IPv4
	var udp wire.UDP
	if ip.Parse(b) != nil || ip.Protocol != wire.ProtocolUDP || udp.Parse(b[wire.IPv4Len:ip.TotalLen]) != nil ||
		int(udp.Length) != int(ip.TotalLen)-wire.IPv4Len {
		d.port.Receiver.Count(rvt.DropMalformed, 1)
		return
	}
	src, dst := netip.AddrPortFrom(netip.AddrFrom4(ip.Src), udp.SrcPort),
		netip.AddrPortFrom(netip.AddrFrom4(ip.Dst), udp.DstPort)
	if dst != at {
		return
	}
	if !d.port.Active() {
		d.port.Receiver.Count(rvt.DropNotForUs, 1)
		return
	}
	d.flow.odd = ip.Frag ^ wire.IPv4DontFragment
	d.flow.set(src, dst)
	d.src.GID, d.dst.GID = GIDOf(src.Addr()), GIDOf(dst.Addr())
	d.Class, d.HopLimit = ip.TOS, ip.TTL
	p := b[wire.IPv4Len+wire.UDPLen : ip.TotalLen]
	if len(p) < wire.BTHLen+wire.ICRCLen || len(p)%4 != 0 {
		d.refuse(rvt.DropMalformed, p)
		return
	}
	seg := d.segment(p, ip.ID)
	if seg == 0 {
		d.refuse(rvt.DropICRC, p)
		return
	}
	for id := ip.ID; len(p) > 0; id++ {
		k := min(seg, len(p))
		one := p[:k:k]
		p = p[k:]
		switch {
		case k < wire.BTHLen+wire.ICRCLen:
			d.refuse(rvt.DropMalformed, one)
		case d.flow.strict(one, id):
			d.checked(one, id)
		case d.flow.strict(one, ip.ID): // from a sender that does not count, merged by receive offload
			d.checked(one, ip.ID)
		default:
			d.refuse(rvt.DropICRC, one)
		}
	}
}

// strict checks an ICRC with a visible identification.
func (f *packetFlow) strict(b []byte, id uint16) bool {
	end := len(b) - wire.ICRCLen
	return uint32(f.flow4.Start(len(b), id).Transport(b[:end])) == binary.LittleEndian.Uint32(b[end:])
}

// segment returns the packet length of a train, or len(p) if it is one packet: the length at which the first packet's
// ICRC is right. The system does not report it to a raw socket. It returns 0 if there is no such length.
func (d *Decoder) segment(p []byte, id uint16) int {
	most := d.port.MTU.Bytes() + Headroom
	if len(p) <= most && d.flow.strict(p, id) {
		return len(p)
	}
	try := func(n int) bool {
		if n < wire.BTHLen+wire.ICRCLen || n >= len(p) || !d.flow.strict(p[:n], id) {
			return false
		}
		d.seg = n
		return true
	}
	if try(d.seg) { // same as the last train's
		return d.seg
	}
	h := wire.Opcode(p[0]).HeaderLen()
	for m := d.port.MTU; m > 0; m-- {
		if try(h + m.Bytes() + wire.ICRCLen) {
			return d.seg
		}
	}
	if n := d.flow.flow4.First(p, id, min(most, len(p)-wire.BTHLen), likelyBTH); n > 0 {
		d.seg = n
		return n
	}
	return 0
}

// likelyBTH reports whether b may begin with a BTH: a known opcode, transport version 0, reserved fields 0, and a QP
// other than 0, which Ethernet does not have.
func likelyBTH(b []byte) bool {
	return wire.Opcode(b[0]).Known() && b[1]&0x0f == 0 && b[4]&0x3f == 0 && b[5]|b[6]|b[7] != 0 && b[8]&0x7f == 0
}

// IP decodes one IP packet. It counts packets that a host's IP and UDP layers would drop as malformed or as addressed
// to another host.
func (d *Decoder) IP(b []byte) {
	src, dst, id, p, err := ipFlow(b, d.port.Addr.Is4())
	switch {
	case err != nil:
		d.port.Receiver.Count(rvt.DropMalformed, 1)
		return
	case !d.port.Active() || dst.Port() != d.port.UDP || dst.Addr() != d.port.Addr && !dst.Addr().IsMulticast():
		d.port.Receiver.Count(rvt.DropNotForUs, 1)
		return
	}
	d.flow.set(src, dst)
	d.src.GID, d.dst.GID = GIDOf(src.Addr()), GIDOf(dst.Addr())
	d.Class, d.HopLimit, d.Label = headerFields(b)
	if len(p) < wire.BTHLen+wire.ICRCLen || len(p)%4 != 0 {
		d.refuse(rvt.DropMalformed, p)
		return
	}
	c := d.flow.flow6.Start(len(p))
	if d.port.Addr.Is4() {
		c = d.flow.flow4.Start(len(p), id)
	}
	end := len(p) - wire.ICRCLen
	if uint32(c.Transport(p[:end])) != binary.LittleEndian.Uint32(p[end:]) {
		d.refuse(rvt.DropICRC, p)
		return
	}
	d.checked(p, id)
}

// headerFields returns the traffic class, the hop limit and the flow label of a valid IP header.
func headerFields(b []byte) (class, hops uint8, label uint32) {
	if b[0]>>4 == 4 {
		return b[1], b[8], 0
	}
	first := binary.BigEndian.Uint32(b)
	return uint8(first >> 20), b[7], first & wire.MaskFlowLabel
}

// ipFlow parses the headers of an IP packet up to UDP's. It returns source and destination, the IPv4 identification and
// the UDP payload.
func ipFlow(b []byte, v4 bool) (src, dst netip.AddrPort, id uint16, rest []byte, err error) {
	var s, d netip.Addr
	var protocol uint8
	if v4 {
		var h wire.IPv4
		if err := h.Parse(b); err != nil {
			return src, dst, 0, nil, err
		}
		s, d = netip.AddrFrom4(h.Src), netip.AddrFrom4(h.Dst)
		protocol, id = h.Protocol, h.ID
		rest = b[wire.IPv4Len:h.TotalLen]
	} else {
		var h wire.IPv6
		if err := h.Parse(b); err != nil {
			return src, dst, 0, nil, err
		}
		s, d, protocol = netip.AddrFrom16(h.Src), netip.AddrFrom16(h.Dst), h.NextHeader
		rest = b[wire.IPv6Len : wire.IPv6Len+int(h.PayloadLen)]
	}
	if protocol != wire.ProtocolUDP {
		return src, dst, 0, nil, wire.ErrProtocol
	}
	var u wire.UDP
	if err := u.Parse(rest); err != nil {
		return src, dst, 0, nil, err
	}
	if int(u.Length) != len(rest) {
		return src, dst, 0, nil, wire.ErrLength
	}
	return netip.AddrPortFrom(s, u.SrcPort), netip.AddrPortFrom(d, u.DstPort), id, rest[wire.UDPLen:], nil
}
