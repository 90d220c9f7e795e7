package wire

import "encoding/binary"

// foldMin is the minimum length for foldCRC: one step of the loop, and the words that it leaves to the tables.
const foldMin = 2 * foldWords * 8

// foldWords is the number of following words to which foldCRC propagates a word.
const foldWords = 5

// foldCRC returns the register r after the bytes of b, of which there must be at least foldMin; the number need not be
// a multiple of 4. It uses tables only for the last words. On processors without instructions for CRC-32 or carry-less
// multiplication, its shifts cost less than the nine loads per 8 bytes of slicing.
//
// The polynomial x^300 + x^155 + x^117 + x^89 + 1 is a multiple of the CRC-32 polynomial. Therefore the CRC does not
// change if a bit of the message is cleared and the four bits that follow it at distances 145, 183, 211 and 300 are
// flipped. All distances are at least 64, so a whole word can be cleared at once by XORing shifted copies of it into
// the next five words. No multiple with four distances of at least 64 reaches less far (TestFoldPolynomial proves it).
// When five words are left, they and the rest of the message have the CRC of the whole message.
func foldCRC(r uint32, b []byte) uint32 {
	le := binary.LittleEndian
	// t0 to t4 are to be XORed into the next five words. An initial register is equivalent to flipped bits in the first
	// four bytes.
	t0 := uint64(r)
	var t1, t2, t3, t4 uint64
	for len(b) >= foldMin {
		w := le.Uint64(b) ^ t0
		t2 ^= w<<17 ^ w<<55
		t3 ^= w>>47 ^ w>>9 ^ w<<19
		t4 ^= w>>45 ^ w<<44
		t0 = w >> 20

		w = le.Uint64(b[8:]) ^ t1
		t3 ^= w<<17 ^ w<<55
		t4 ^= w>>47 ^ w>>9 ^ w<<19
		t0 ^= w>>45 ^ w<<44
		t1 = w >> 20

		w = le.Uint64(b[16:]) ^ t2
		t4 ^= w<<17 ^ w<<55
		t0 ^= w>>47 ^ w>>9 ^ w<<19
		t1 ^= w>>45 ^ w<<44
		t2 = w >> 20

		w = le.Uint64(b[24:]) ^ t3
		t0 ^= w<<17 ^ w<<55
		t1 ^= w>>47 ^ w>>9 ^ w<<19
		t2 ^= w>>45 ^ w<<44
		t3 = w >> 20

		w = le.Uint64(b[32:]) ^ t4
		t1 ^= w<<17 ^ w<<55
		t2 ^= w>>47 ^ w>>9 ^ w<<19
		t3 ^= w>>45 ^ w<<44
		t4 = w >> 20

		b = b[40:]
	}
	r = crcWord(0, le.Uint64(b)^t0)
	r = crcWord(r, le.Uint64(b[8:])^t1)
	r = crcWord(r, le.Uint64(b[16:])^t2)
	r = crcWord(r, le.Uint64(b[24:])^t3)
	r = crcWord(r, le.Uint64(b[32:])^t4)
	b = b[40:]
	n := len(b) &^ 3
	r = headerCRC(r, b[:n])
	for _, v := range b[n:] {
		r = crcTab[0][byte(r)^v] ^ r>>8
	}
	return r
}
