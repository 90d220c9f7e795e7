package wiresuite

import (
	"encoding/binary"
	"hash/crc32"

	"ciddk/ci"
)

// Lengths of headers and checksums, in bytes.
const (
	lrhLen  = 8
	grhLen  = 40
	ip4Len  = 20
	ip6Len  = 40
	udpLen  = 8
	bthLen  = 12
	icrcLen = 4
	vcrcLen = 2
)

// nextIBA is the next header value of a GRH that a BTH follows.
const nextIBA = 0x1b

// bthAt returns the offset of the BTH in a whole packet, or -1 if there is none.
func bthAt(link ci.Link, b []byte) int {
	at := -1
	switch {
	case len(b) < lrhLen:
	case link == ci.LinkInfiniBand && b[1]&3 == 3:
		at = lrhLen + grhLen
	case link == ci.LinkInfiniBand && b[1]&3 == 2:
		at = lrhLen
	case link == ci.LinkInfiniBand:
	case b[0]>>4 == 4:
		at = int(b[0]&15)*4 + udpLen
	case b[0]>>4 == 6:
		at = ip6Len + udpLen
	}
	if at < 0 || len(b) < at+bthLen+icrcLen {
		return -1
	}
	return at
}

// icrc computes the invariant CRC of a whole packet with its BTH at offset at. It uses nothing of package wire. It
// copies the packet, sets the fields that may change on the way to ones (IBTA volume 1, 7.8.1; for IP and UDP annex
// A17, where eight bytes of ones replace the LRH), and computes the CRC-32 of the standard library.
func icrc(link ci.Link, b []byte, at int) uint32 {
	c := append([]byte(nil), b...)
	if link == ci.LinkInfiniBand {
		c = c[:len(c)-vcrcLen]
	}
	c = c[:len(c)-icrcLen]
	ones := func(from, to int) {
		for i := from; i < to; i++ {
			c[i] = 0xff
		}
	}
	c[at+4] = 0xff // FECN, BECN, reserved
	switch {
	case link == ci.LinkInfiniBand && at == lrhLen:
		c[0] |= 0xf0 // VL
	case link == ci.LinkInfiniBand:
		ones(0, lrhLen)
		c[8] |= 0x0f // traffic class, flow label
		ones(9, 12)
		ones(15, 16) // hop limit
	case c[0]>>4 == 4:
		ones(1, 2)        // TOS
		ones(8, 9)        // TTL
		ones(10, 12)      // header checksum
		ones(at-2, at)    // UDP checksum
		c = prefixOnes(c) //
	default:
		c[0] |= 0x0f // traffic class, flow label
		ones(1, 4)
		ones(7, 8) // hop limit
		ones(at-2, at)
		c = prefixOnes(c)
	}
	return crc32.ChecksumIEEE(c)
}

// prefixOnes puts the bytes that replace the LRH before b.
func prefixOnes(b []byte) []byte {
	return append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, b...)
}

// icrcOf returns the ICRC in a packet, which is stored least significant byte first.
func icrcOf(link ci.Link, b []byte) uint32 {
	if link == ci.LinkInfiniBand {
		b = b[:len(b)-vcrcLen]
	}
	return binary.LittleEndian.Uint32(b[len(b)-icrcLen:])
}

// icrcHolds reports whether the ICRC of a packet is correct. header reports whether the IPv4 identification is the one
// that was sent. If not, icrcHolds tries all 65,536 values. The CRCs of two identifications differ by the sum of the
// contributions of their bits, so 17 computations suffice.
func icrcHolds(link ci.Link, b []byte, at int, header bool) bool {
	want := icrcOf(link, b)
	base := icrc(link, b, at)
	hasIdentification := link != ci.LinkInfiniBand && b[0]>>4 == 4
	if base == want || header || !hasIdentification {
		return base == want
	}
	c := append([]byte(nil), b...)
	var bit [16]uint32
	for i := range bit {
		binary.BigEndian.PutUint16(c[4:], binary.BigEndian.Uint16(b[4:])^1<<i)
		bit[i] = icrc(link, c, at) ^ base
	}
	got := base
	for n := uint32(1); n < 1<<16; n++ { // Gray code: each step changes one bit
		k := 0
		for n>>k&1 == 0 {
			k++
		}
		if got ^= bit[k]; got == want {
			return true
		}
	}
	return false
}

// vcrc computes the variant CRC of an InfiniBand packet, from the LRH to the ICRC. It is a CRC-16 with polynomial
// 0x100b, an initial value of ones, bits in sending order, complemented (IBTA volume 1, 7.8.2).
func vcrc(b []byte) uint16 {
	r := uint16(0xffff)
	for _, x := range b {
		r ^= uint16(x)
		for range 8 {
			if r&1 != 0 {
				r = r>>1 ^ 0xd008 // 0x100b reversed
			} else {
				r >>= 1
			}
		}
	}
	return ^r
}
