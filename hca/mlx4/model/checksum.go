package model

// Protocol numbers of IP.
const (
	protocolTCP = 6
	protocolUDP = 17
	typeIPv4    = 0x0800
	typeIPv6    = 0x86dd
)

// checksums fills in the checksums of a frame that the driver has left to the adapter: that of an IPv4 header, and that
// of TCP or UDP. It leaves alone what it cannot parse.
func checksums(f []byte, ip, transport bool) {
	if !ip && !transport {
		return
	}
	kind, at := etherType(f)
	b := f[at:]
	switch {
	case kind == typeIPv4 && len(b) >= ip4Size:
		size := int(b[0]&0xf) * 4
		total := int(bigEndian.Uint16(b[2:]))
		if size < ip4Size || total < size || total > len(b) {
			return
		}
		if ip {
			bigEndian.PutUint16(b[10:], 0)
			bigEndian.PutUint16(b[10:], ^fold(sum(0, b[:size])))
		}
		const fragment = 0x3fff // offset and more fragments
		if transport && bigEndian.Uint16(b[6:])&fragment == 0 {
			fillTransport(b[size:total], b[9], sum(0, b[12:20]))
		}
	case kind == typeIPv6 && len(b) >= grhSize:
		total := grhSize + int(bigEndian.Uint16(b[4:]))
		if transport && total <= len(b) {
			fillTransport(b[grhSize:total], b[6], sum(0, b[8:40]))
		}
	}
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

// fillTransport fills in the checksum of TCP or UDP. pseudo is the sum over the addresses.
func fillTransport(b []byte, protocol uint8, pseudo uint32) {
	at := 16 // of TCP
	switch {
	case protocol == protocolUDP:
		at = 6
	case protocol != protocolTCP:
		return
	}
	if len(b) < at+2 {
		return
	}
	bigEndian.PutUint16(b[at:], 0)
	v := ^fold(sum(pseudo+uint32(protocol)+uint32(len(b)), b))
	if v == 0 && protocol == protocolUDP {
		v = 0xffff
	}
	bigEndian.PutUint16(b[at:], v)
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
