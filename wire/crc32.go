package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// crcTab holds the slicing-by-8 tables of CRC-32/IEEE: crcTab[k][v] is the register after byte v and k zero bytes,
// starting from zero. hash/crc32 has the same tables, but the argument of its functions escapes to the heap because
// they are called through a variable. headerCRC keeps headers on the stack.
var crcTab = func() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for k := 1; k < 8; k++ {
		for v := range 256 {
			r := t[k-1][v]
			t[k][v] = t[0][byte(r)] ^ r>>8
		}
	}
	return t
}()

// crcWord returns the register r (not complemented) after 8 more bytes, given as a little-endian number.
func crcWord(r uint32, w uint64) uint32 {
	w ^= uint64(r)
	return crcTab[7][byte(w)] ^ crcTab[6][byte(w>>8)] ^ crcTab[5][byte(w>>16)] ^ crcTab[4][byte(w>>24)] ^
		crcTab[3][byte(w>>32)] ^ crcTab[2][byte(w>>40)] ^ crcTab[1][byte(w>>48)] ^ crcTab[0][byte(w>>56)]
}

// crcWord4 is like crcWord for 4 bytes.
func crcWord4(r, w uint32) uint32 {
	w ^= r
	return crcTab[3][byte(w)] ^ crcTab[2][byte(w>>8)] ^ crcTab[1][byte(w>>16)] ^ crcTab[0][byte(w>>24)]
}

// headerCRC returns the register r after the bytes of b. It is for headers: b does not escape, and its length must be a
// multiple of 4, like that of all IBA and IP headers.
func headerCRC(r uint32, b []byte) uint32 {
	for ; len(b) >= 8; b = b[8:] {
		r = crcWord(r, binary.LittleEndian.Uint64(b))
	}
	if len(b) >= 4 {
		r = crcWord4(r, binary.LittleEndian.Uint32(b))
	}
	return r
}

// shiftTable returns the contribution of a byte to the final register, for each value of the byte, if n bytes follow
// it. A CRC is linear: the final register is the XOR of the contributions of all bytes.
func shiftTable(n int) (t [256]uint32) {
	for v := range t {
		r := crcTab[0][v]
		for range n {
			r = crcTab[0][byte(r)] ^ r>>8
		}
		t[v] = r
	}
	return t
}
