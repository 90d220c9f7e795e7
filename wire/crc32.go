package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// crcTab are the slicing-by-8 tables of CRC-32/IEEE: crcTab[k][v] is the register after byte v and k zero bytes, from zero.
// hash/crc32 has the same, and faster code for long input, but calls it through a variable: its argument escapes to the heap. Headers
// built on a stack go through headerCRC instead.
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

// crcWord runs 8 bytes, given as a little-endian number, through the register r (not complemented).
func crcWord(r uint32, w uint64) uint32 {
	w ^= uint64(r)
	return crcTab[7][byte(w)] ^ crcTab[6][byte(w>>8)] ^ crcTab[5][byte(w>>16)] ^ crcTab[4][byte(w>>24)] ^
		crcTab[3][byte(w>>32)] ^ crcTab[2][byte(w>>40)] ^ crcTab[1][byte(w>>48)] ^ crcTab[0][byte(w>>56)]
}

// crcWord4 runs 4 bytes through the register.
func crcWord4(r, w uint32) uint32 {
	w ^= r
	return crcTab[3][byte(w)] ^ crcTab[2][byte(w>>8)] ^ crcTab[1][byte(w>>16)] ^ crcTab[0][byte(w>>24)]
}

// headerCRC is crc32.Update for short input that need not be on the heap. len(b) must be a multiple of 4, as all IBA and IP
// headers are.
func headerCRC(r uint32, b []byte) uint32 {
	for ; len(b) >= 8; b = b[8:] {
		r = crcWord(r, binary.LittleEndian.Uint64(b))
	}
	if len(b) >= 4 {
		r = crcWord4(r, binary.LittleEndian.Uint32(b))
	}
	return r
}

// shiftTable gives, for every value of a byte with n bytes behind it, what the byte contributes to the register at the end. The
// CRC is linear: the register of a message is the XOR of the contributions of its bytes.
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
