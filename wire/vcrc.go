package wire

import "encoding/binary"

// VCRCLen is the length in bytes of the variant CRC at the end of every InfiniBand packet.
const VCRCLen = 2

// VCRC is a variant CRC, or a partial one (IBTA vol 1, 7.8.2). It covers the packet from LRH to ICRC. The polynomial is
// x^16+x^12+x^3+x+1 (0x100B), the seed is all ones, bytes are processed least significant bit first, and the result is
// complemented. The zero value is that of no bytes. The wire order is that of the ICRC in 7.8.1 and its sample packet:
// least significant byte first.
type VCRC uint16

// vcrcTab[k][v] is the register after byte v and k zero bytes, starting from zero.
var vcrcTab = func() (t [8][256]uint16) {
	const reversed = 0xd008 // 0x100B with the coefficient of x^15 in bit 0
	for v := range 256 {
		r := uint16(v)
		for range 8 {
			r = r>>1 ^ reversed&-(r&1)
		}
		t[0][v] = r
	}
	for k := 1; k < 8; k++ {
		for v := range 256 {
			r := t[k-1][v]
			t[k][v] = t[0][byte(r)] ^ r>>8
		}
	}
	return t
}()

// Update adds a piece of the packet.
func (c VCRC) Update(b []byte) VCRC {
	r := ^uint16(c)
	for ; len(b) >= 8; b = b[8:] {
		w := binary.LittleEndian.Uint64(b) ^ uint64(r)
		r = vcrcTab[7][byte(w)] ^ vcrcTab[6][byte(w>>8)] ^ vcrcTab[5][byte(w>>16)] ^ vcrcTab[4][byte(w>>24)] ^
			vcrcTab[3][byte(w>>32)] ^ vcrcTab[2][byte(w>>40)] ^ vcrcTab[1][byte(w>>48)] ^ vcrcTab[0][byte(w>>56)]
	}
	for _, v := range b {
		r = vcrcTab[0][byte(r)^v] ^ r>>8
	}
	return VCRC(^r)
}

// Put writes the CRC to b[:VCRCLen] in wire order.
func (c VCRC) Put(b []byte) { binary.LittleEndian.PutUint16(b, uint16(c)) }
