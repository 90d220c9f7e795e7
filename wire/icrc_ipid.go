package wire

import "encoding/binary"

// SolveIPv4ID finds the IPv4 identification for which a packet's ICRC is right, and false if there is none.
//
// The identification is inside the ICRC, but a UDP socket does not show it. got is the ICRC computed with identification 0, want the
// one in the packet, tailLen the number of bytes that the ICRC covers behind the UDP header: BTH to the end of the pad.
//
// A CRC is linear: got XOR want is the identification's own contribution, its 16 bits run through the CRC and then through as many
// zero bytes as follow the field. That last step is a multiplication by a power of x modulo the polynomial and can be undone: what
// comes out is the 16 bits with 16 zero bits above them, or the packet was wrong. So the check keeps 16 of the ICRC's 32 bits; beside
// the UDP checksum, and for peers whose identification is 0, where the first comparison settles it, that is what can be had.
func SolveIPv4ID(got, want uint32, tailLen int) (id uint16, ok bool) {
	if got == want {
		return 0, true
	}
	if tailLen < 0 {
		return 0, false
	}
	// Bits fed into an empty register are as good as standing in it from the start, with the zero bytes yet to come that stand
	// for the field's own two.
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

// First finds the length of the first packet in b, which begins with a transport packet (BTH to ICRC) and goes on with others: the least
// multiple of 4 from BTHLen+ICRCLen up to most, and to less than len(b), at which the ICRC is right with identification id; 0 if there
// is none, and beyond the packets of MTU 4096. next, if not nil, is asked whether a packet may begin at b[n:], before that is found out. The work is one pass over the
// bytes, and some 40 ns for each length that next lets through.
func (f Flow4) First(b []byte, id uint16, most int, next func(b []byte) bool) int {
	// What stands in front only adds to a CRC: its share is compared, taken back to where the transport packet begins.
	at, r := 0, uint32(0)
	for n := BTHLen + ICRCLen; n <= most && n < len(b) && n/4 < len(unshift); n += 4 {
		if next != nil && !next(b[n:]) {
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

// unshift[k] is x^-(32k) modulo the CRC-32 polynomial: multiplying a register by it takes 4k zero bytes back. It covers the
// packets of the largest MTU, 4096 bytes, with their headers.
var unshift = func() (t [(4096 + 128) / 4]uint32) {
	t[0] = 1 << 31
	back := unshiftPower(4)
	for k := 1; k < len(t); k++ {
		t[k] = mulMod(t[k-1], back)
	}
	return t
}()

// unshiftPower is x^-(8n).
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

// ieeePoly is the polynomial with the coefficient of x^31 in bit 0 and of x^0 in bit 31; x^32 is left out.
const ieeePoly = 0xedb88320

// xInverse8 is x^-8. The polynomial is P = x*Q + 1, so x*Q = 1 modulo P (the coefficients are bits) and Q is x^-1.
var xInverse8 = func() uint32 {
	q := uint32(ieeePoly<<1&0xffffffff | 1) // every coefficient of P - 1 one down; that of x^32 is not in ieeePoly
	q2 := mulMod(q, q)
	q4 := mulMod(q2, q2)
	return mulMod(q4, q4)
}()

// mulMod multiplies two polynomials modulo the CRC-32 polynomial, in the register's bit order.
func mulMod(a, b uint32) uint32 {
	var p uint32
	for range 32 {
		p ^= b & -(a >> 31)
		a <<= 1
		b = b>>1 ^ ieeePoly&-(b&1)
	}
	return p
}
