package wire

import "encoding/binary"

// foldMin is the least length that foldCRC takes: what the loop needs to begin, and the words that it leaves to the tables.
const foldMin = 2 * foldWords * 8

// foldWords is the reach of a word in foldCRC, in words.
const foldWords = 5

// foldCRC is headerCRC for at least foldMin bytes, of any number, without tables but for the end: where a processor has no instruction for
// CRC-32 or carry-less products, arithmetic is cheaper than the nine loads that slicing takes for 8 bytes.
//
// x^300 + x^155 + x^117 + x^89 + 1 is a multiple of the CRC-32 polynomial, so a bit of the message may be cleared for four flipped ones
// that stand 145, 183, 211 and 300 bits behind it: all at least 64, so a word is taken back at once, and its traces reach over the fifth
// word behind it. (Of all multiples with four such distances below 400 it is the one of least reach; TestFoldPolynomial has the proof.)
// When five words are left, the message is those, with the traces, and what follows them.
func foldCRC(r uint32, b []byte) uint32 {
	le := binary.LittleEndian
	// The traces on the next five words. A register in front of a message is the same as its first four bytes flipped.
	t0, t1, t2, t3, t4 := uint64(r), uint64(0), uint64(0), uint64(0), uint64(0)
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
