package wire

import "encoding/binary"

// SolveIPv4ID returns the IPv4 identification for which the ICRC of a packet is correct. It returns false if there is
// none.
//
// The ICRC covers the identification, which a UDP socket does not report. got is the ICRC computed with identification
// 0, and want is the ICRC in the packet. tailLen is the number of bytes that the ICRC covers after the UDP header, from
// the BTH to the end of the pad.
//
// A CRC is linear, so got XOR want is the contribution of the identification: the CRC of its 16 bits and of as many
// zero bytes as follow the field. The zero bytes multiply by a power of x modulo the polynomial, which SolveIPv4ID
// inverts. The result of a correct packet has zeros in its upper 16 bits. The check therefore has the strength of 16 of
// the 32 bits of the ICRC, in addition to the UDP checksum. It has the full strength if the sender uses identification
// 0.
func SolveIPv4ID(got, want uint32, tailLen int) (id uint16, ok bool) {
	if got == want {
		return 0, true
	}
	if tailLen < 0 {
		return 0, false
	}
	// The 16 bits are equivalent to an initial register, if the two bytes of the field itself count as zero bytes that
	// follow.
	n := 2 + (IPv4Len - 6) + UDPLen + tailLen
	var r uint32
	if n%4 == 0 && n/4 < len(unshift) {
		r = mulMod(got^want, unshift[n/4])
	} else {
		r = mulMod(got^want, unshiftPower(n))
	}
	if r > 0xffff {
		return 0, false
	}
	return uint16(r)<<8 | uint16(r)>>8, true
}

// First returns the length of the first packet in b, which contains several transport packets (BTH to ICRC). This is
// the smallest multiple of 4 from BTHLen+ICRCLen to maxLen, and less than len(b), at which the ICRC is correct with
// identification id. First returns 0 if there is none, or if the packet is longer than those of MTU 4096. If mayBegin
// is not nil, First skips lengths n for which mayBegin(b[n:]) is false. It reads the bytes once, and takes about 40 ns
// more for each length that it tries.
func (f Flow4) First(b []byte, id uint16, maxLen int, mayBegin func(b []byte) bool) int {
	// The headers in front contribute Start to the CRC. The loop compares it with the rest, shifted back to the start
	// of the packet.
	at, r := 0, uint32(0)
	for n := BTHLen + ICRCLen; n <= maxLen && n < len(b) && n/4 < len(unshift); n += 4 {
		if mayBegin != nil && !mayBegin(b[n:]) {
			continue
		}
		end := n - ICRCLen
		if at == 0 {
			r, at = crcWord(0, binary.LittleEndian.Uint64(b)|0xff<<32), 8
		}
		r, at = updateCRC(r, b[at:end]), end
		if mulMod(r^^binary.LittleEndian.Uint32(b[end:]), unshift[end/4]) == ^uint32(f.Start(n, id)) {
			return n
		}
	}
	return 0
}

// unshift[k] is x^-(32k) modulo the CRC-32 polynomial. Multiplication of a register by it undoes 4k zero bytes. The
// table covers packets of the largest MTU, 4096 bytes, with their headers.
var unshift = func() (t [(4096 + 128) / 4]uint32) {
	t[0] = 1 << 31
	back := unshiftPower(4)
	for k := 1; k < len(t); k++ {
		t[k] = mulMod(t[k-1], back)
	}
	return t
}()

// unshiftPower returns x^-(8n) modulo the CRC-32 polynomial.
func unshiftPower(n int) uint32 {
	p := uint32(1) << 31 // x^0
	for sq := xInverse8; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = mulMod(p, sq)
		}
		sq = mulMod(sq, sq)
	}
	return p
}

// ieeePoly is the CRC-32 polynomial without x^32. Bit 0 is the coefficient of x^31, and bit 31 that of x^0.
const ieeePoly = 0xedb88320

// xInverse8 is x^-8. The polynomial is P = x*Q + 1. Coefficients are bits, so x*Q = 1 modulo P, and Q is x^-1.
var xInverse8 = func() uint32 {
	q := uint32(ieeePoly<<1&0xffffffff | 1) // (P - 1) / x; ieeePoly lacks the coefficient of x^32
	q2 := mulMod(q, q)
	q4 := mulMod(q2, q2)
	return mulMod(q4, q4)
}()

// mulMod returns the product of two polynomials modulo the CRC-32 polynomial, in the bit order of the register.
func mulMod(a, b uint32) uint32 {
	var p uint32
	for range 32 {
		p ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ ieeePoly&-(b&1)
	}
	return p
}
