package wire

// A GID is a [16]byte in wire order. On RoCE it is an IPv6 address, or the IPv4-mapped address ::ffff:a.b.c.d (annex
// A17).

// GIDFromIPv4 returns the GID of an IPv4 address.
func GIDFromIPv4(a [4]byte) (gid [16]byte) {
	gid[10], gid[11] = 0xff, 0xff
	*(*[4]byte)(gid[12:]) = a
	return gid
}

// IPv4FromGID returns the IPv4 address of a GID. It returns false if the GID is not IPv4-mapped.
func IPv4FromGID(gid [16]byte) ([4]byte, bool) {
	if [12]byte(gid[:]) != [12]byte{10: 0xff, 11: 0xff} {
		return [4]byte{}, false
	}
	return [4]byte(gid[12:]), true
}

// LinkLocalGID returns the default GID of a RoCE port: fe80::/64 with the EUI-64 of its MAC address (RFC 4291, appendix
// A).
func LinkLocalGID(mac [6]byte) [16]byte {
	return [16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4],
		15: mac[5]}
}

// IsMulticastGID reports whether a GID is a multicast GID: ff00::/8, or that of an IPv4 group.
func IsMulticastGID(gid [16]byte) bool {
	if a, ok := IPv4FromGID(gid); ok {
		return a[0]>>4 == 0xe
	}
	return gid[0] == 0xff
}

// MulticastMAC returns the Ethernet address of a multicast GID: 01:00:5e and 23 bits of an IPv4 group (RFC 1112), or
// 33:33 and 32 bits of an IPv6 group (RFC 2464). It returns false if the GID is not a multicast GID.
func MulticastMAC(gid [16]byte) (mac [6]byte, ok bool) {
	if !IsMulticastGID(gid) {
		return mac, false
	}
	if a, v4 := IPv4FromGID(gid); v4 {
		return [6]byte{0x01, 0x00, 0x5e, a[1] & 0x7f, a[2], a[3]}, true
	}
	return [6]byte{0x33, 0x33, gid[12], gid[13], gid[14], gid[15]}, true
}
