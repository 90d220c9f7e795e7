package linktest

import "math/rand/v2"

// Damages are ways to corrupt the payload of a packet.
var Damages = []struct {
	Name string
	Do   func(rnd *rand.Rand, b []byte)
}{
	{"2 bits", func(rnd *rand.Rand, b []byte) { Flip(rnd, b, 2) }},
	{"3 bits", func(rnd *rand.Rand, b []byte) { Flip(rnd, b, 3) }},
	{"20 bits", func(rnd *rand.Rand, b []byte) { Flip(rnd, b, 20) }},
	{"burst of 64 bits", func(rnd *rand.Rand, b []byte) {
		at := rnd.IntN(len(b) - 8)
		for i := range 8 {
			b[at+i] ^= byte(rnd.Uint32())
		}
	}},
	{"other contents", func(rnd *rand.Rand, b []byte) {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	}},
}

// Flip flips n different bits.
func Flip(rnd *rand.Rand, b []byte, n int) {
	done := make([]byte, len(b))
	for n > 0 {
		bit := rnd.IntN(8 * len(b))
		if m := byte(1) << (bit % 8); done[bit/8]&m == 0 {
			done[bit/8] |= m
			b[bit/8] ^= m
			n--
		}
	}
}
