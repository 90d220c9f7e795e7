package frame

import (
	"encoding/binary"
	"net/netip"

	"ciddk/wire"
)

// ICMPv6 (RFC 4443) and neighbor discovery (RFC 4861).
const (
	protocolICMPv6 = 58
	ndSolicit      = 135
	ndAdvertise    = 136
	ndLen          = 24 // type, code, checksum, flags, target
	ndOptionLen    = 8  // with a MAC address
	ndSourceMAC    = 1
	ndTargetMAC    = 2
	ndHops         = 255 // of all messages: they do not come from another link
	ndSolicited    = 0x40
	ndOverride     = 0x20
)

// solicit sends a neighbor solicitation (RFC 4861, 4.3).
func (r *resolver) solicit(from, target netip.Addr) {
	t := target.As16()
	group := netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: t[13], 14: t[14], 15: t[15]})
	r.sendND(ndSolicit, 0, from, group, groupMAC(group), t, ndSourceMAC)
}

// sendND sends a message with the port's MAC address as option.
func (r *resolver) sendND(typ, flags byte, src, dst netip.Addr, mac [6]byte, target [16]byte, option byte) {
	own := r.port.MAC()
	b := make([]byte, wire.EthernetLen+wire.IPv6Len+ndLen+ndOptionLen)
	eth := wire.Ethernet{Dst: mac, Src: own, EtherType: wire.EtherTypeIPv6}
	eth.Put(b)
	ip := wire.IPv6{PayloadLen: ndLen + ndOptionLen, NextHeader: protocolICMPv6, HopLimit: ndHops, Src: src.As16(),
		Dst: dst.As16()}
	ip.Put(b[wire.EthernetLen:])
	m := b[wire.EthernetLen+wire.IPv6Len:]
	m[0], m[4] = typ, flags
	copy(m[8:], target[:])
	m[ndLen], m[ndLen+1] = option, ndOptionLen/8
	copy(m[ndLen+2:], own[:])
	binary.BigEndian.PutUint16(m[2:], ^sumICMP(&ip, m))
	r.port.SendFrame(b)
}

// sumICMP returns the sum of an ICMPv6 message and its pseudo-header (RFC 4443, 2.3). It is 0xffff for a message whose
// checksum is right.
func sumICMP(ip *wire.IPv6, m []byte) uint16 {
	s := uint64(len(m)) + protocolICMPv6
	add := func(b []byte) {
		for ; len(b) >= 2; b = b[2:] {
			s += uint64(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			s += uint64(b[0]) << 8
		}
	}
	add(ip.Src[:])
	add(ip.Dst[:])
	add(m)
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// receiveND learns from neighbor discovery, and answers a solicitation for an address of the port. It returns false for
// other packets, and for messages of ICMPv6 that are not valid (RFC 4861, 7.1).
func (r *resolver) receiveND(b []byte) bool {
	var ip wire.IPv6
	if ip.Parse(b) != nil || ip.NextHeader != protocolICMPv6 {
		return false
	}
	m := b[wire.IPv6Len:][:ip.PayloadLen]
	if ip.HopLimit != ndHops || len(m) < ndLen || m[1] != 0 || sumICMP(&ip, m) != 0xffff {
		return false
	}
	target := netip.AddrFrom16([16]byte(m[8:]))
	src := netip.AddrFrom16(ip.Src)
	switch m[0] {
	case ndAdvertise:
		if mac, ok := ndOption(m[ndLen:], ndTargetMAC); ok {
			r.learn(target, mac)
		}
		return true
	case ndSolicit:
		mac, ok := ndOption(m[ndLen:], ndSourceMAC)
		if ok && !src.IsUnspecified() {
			r.learn(src, mac)
			if r.port.table.Load().hasAddr(target) {
				r.sendND(ndAdvertise, ndSolicited|ndOverride, target, src, mac, target.As16(), ndTargetMAC)
			}
		}
		return true
	}
	return false
}

// ndOption returns the MAC address in an option.
func ndOption(b []byte, typ byte) (mac [6]byte, ok bool) {
	for len(b) >= ndOptionLen {
		n := 8 * int(b[1])
		if n == 0 || n > len(b) {
			return mac, false
		}
		if b[0] == typ {
			return [6]byte(b[2:]), true
		}
		b = b[n:]
	}
	return mac, false
}
