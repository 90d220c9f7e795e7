package model

import "ciddk/internal/mlx4/prm"

// Protocol numbers of IP.
const (
	protocolTCP = 6
	protocolUDP = 17
	typeIPv4    = 0x0800
	typeIPv6    = 0x86dd
)

// Sizes and offsets of transport headers.
const (
	tcpSize       = 20
	tcpChecksumAt = 16
	udpChecksumAt = 6
)

// A packet is a view of the IP packet in a frame.
type packet struct {
	isIPv4, isIPv6 bool
	isFragment     bool // of IPv4
	protocol       uint8
	header         []byte // of IP, with the options of IPv4
	addrs          []byte // source and destination
	payload        []byte // without the padding of the frame
}

// parsePacket returns the IP packet in a frame of at least ethSize bytes. It is the zero packet if there is none.
func parsePacket(f []byte) (p packet) {
	kind, at := etherType(f)
	return parseContent(kind, f[at:])
}

// parseContent returns the IP packet that is the content of a frame or datagram with an EtherType. It is the zero
// packet if there is none.
func parseContent(kind uint16, b []byte) (p packet) {
	switch {
	case kind == typeIPv4 && len(b) >= ip4Size:
		size := int(b[0]&0xf) * 4
		total := int(bigEndian.Uint16(b[2:]))
		if b[0]>>4 != 4 || size < ip4Size || total < size || total > len(b) {
			return packet{}
		}
		const fragment = 0x3fff // offset and more fragments
		return packet{isIPv4: true, isFragment: bigEndian.Uint16(b[6:])&fragment != 0, protocol: b[9], header: b[:size],
			addrs: b[12:20], payload: b[size:total]}
	case kind == typeIPv6 && len(b) >= grhSize:
		total := grhSize + int(bigEndian.Uint16(b[4:]))
		if b[0]>>4 != 6 || total > len(b) {
			return packet{}
		}
		return packet{isIPv6: true, protocol: b[6], header: b[:grhSize], addrs: b[8:40], payload: b[grhSize:total]}
	}
	return packet{}
}

// isTCP reports whether the packet has a TCP header.
func (p *packet) isTCP() bool {
	return p.protocol == protocolTCP && !p.isFragment && len(p.payload) >= tcpSize
}

// isUDP reports whether the packet has a UDP header.
func (p *packet) isUDP() bool {
	return p.protocol == protocolUDP && !p.isFragment && len(p.payload) >= udpSize
}

// transportSum returns the sum of the pseudo header and of TCP or UDP: 0xffff if the checksum is right.
func (p *packet) transportSum() uint16 {
	return fold(sum(sum(uint32(p.protocol)+uint32(len(p.payload)), p.addrs), p.payload))
}

// classify returns what a CQE has of the packet: its flags, and the sum of TCP or UDP. A UDP datagram without a
// checksum has none.
func (p *packet) classify() (flags, checksum uint64) {
	switch {
	case p.isIPv4:
		flags = prm.CQEIPv4
		if fold(sum(0, p.header)) == 0xffff {
			flags |= prm.CQEIPChecksumOK
		}
		if len(p.header) > ip4Size {
			flags |= prm.CQEIPv4Options
		}
		if p.isFragment {
			flags |= prm.CQEIPv4Fragment
		}
	case p.isIPv6:
		flags = prm.CQEIPv6 | prm.CQEIPChecksumOK
	default:
		return 0, 0
	}
	switch {
	case p.isTCP():
		return flags | prm.CQETCP, uint64(p.transportSum())
	case p.isUDP() && bigEndian.Uint16(p.payload[udpChecksumAt:]) != 0:
		return flags | prm.CQEUDP, uint64(p.transportSum())
	case p.isUDP():
		return flags | prm.CQEUDP, 0
	}
	return flags, 0
}

// fillChecksums fills in the checksums of the packet: that of an IPv4 header, and that of TCP or UDP.
func (p *packet) fillChecksums(ip, transport bool) {
	if ip && p.isIPv4 {
		bigEndian.PutUint16(p.header[10:], 0)
		bigEndian.PutUint16(p.header[10:], ^fold(sum(0, p.header)))
	}
	at := 0
	switch {
	case !transport:
		return
	case p.isTCP():
		at = tcpChecksumAt
	case p.isUDP():
		at = udpChecksumAt
	default:
		return
	}
	bigEndian.PutUint16(p.payload[at:], 0)
	v := ^p.transportSum()
	if v == 0 && p.protocol == protocolUDP {
		v = 0xffff
	}
	bigEndian.PutUint16(p.payload[at:], v)
}

// outerTag returns the outermost VLAN tag of a frame: its type, and PCP, DEI and VLAN identifier (IEEE 802.1Q, 9.6).
func outerTag(f []byte) (kind, tci uint16, ok bool) {
	if len(f) < ethSize+vlanSize {
		return 0, 0, false
	}
	kind = bigEndian.Uint16(f[macsSize:])
	return kind, bigEndian.Uint16(f[ethSize:]), kind == typeVLAN || kind == typeSVLAN
}

// etherType returns the type of a frame and where its content begins, behind VLAN tags.
func etherType(f []byte) (kind uint16, at int) {
	at = ethSize
	kind = bigEndian.Uint16(f[12:])
	for (kind == typeVLAN || kind == typeSVLAN) && len(f) >= at+vlanSize {
		kind = bigEndian.Uint16(f[at+2:])
		at += vlanSize
	}
	return kind, at
}

// sum adds the 16-bit words of b (RFC 1071). A frame is too short for an overflow.
func sum(v uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		v += uint32(bigEndian.Uint16(b))
	}
	if len(b) == 1 {
		v += uint32(b[0]) << 8
	}
	return v
}

func fold(v uint32) uint16 {
	for v > 0xffff {
		v = v>>16 + v&0xffff
	}
	return uint16(v)
}
