package chaos

import (
	"encoding/binary"
	"fmt"
)

// guardLen is the number of canary bytes before and after a body.
const guardLen = 256

// guarded is memory with canaries around it.
type guarded struct {
	all  []byte
	seed uint64
	size int
}

func newGuarded(n int, seed uint64) *guarded {
	return guard(make([]byte, n+2*guardLen), n, seed)
}

// newForeign is like newGuarded for memory that several QPs may use concurrently. Where possible, the memory is not on
// the Go heap, so that the race detector does not report races between requests of the consumer. free releases it.
func newForeign(n int, seed uint64) (g *guarded, free func() error, err error) {
	b, free, err := foreignMemory(n + 2*guardLen)
	if err != nil {
		return nil, nil, err
	}
	return guard(b, n, seed), free, nil
}

func guard(b []byte, n int, seed uint64) *guarded {
	g := &guarded{all: b, seed: seed, size: n}
	fill(g.all[:guardLen], seed, 0)
	fill(g.all[guardLen+n:], seed, 1)
	return g
}

// body returns the part that may be registered.
func (g *guarded) body() []byte { return g.all[guardLen : guardLen+g.size : guardLen+g.size] }

// check returns an error if a canary changed.
func (g *guarded) check() error {
	if i := differs(g.all[:guardLen], g.seed, 0); i >= 0 {
		return fmt.Errorf("the byte %d before the region changed", guardLen-i)
	}
	if i := differs(g.all[guardLen+g.size:], g.seed, 1); i >= 0 {
		return fmt.Errorf("the byte %d behind the region changed", i)
	}
	return nil
}

// mix is a bijection that spreads bits (SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes bytes that are determined by a seed and a number.
func fill(b []byte, seed, n uint64) {
	x := mix(seed ^ mix(n))
	for i := 0; len(b) > 0; i++ {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], mix(x+uint64(i)))
		b = b[copy(b, w[:]):]
	}
}

// differs returns the index of the first byte that differs from fill, or -1.
func differs(b []byte, seed, n uint64) int {
	x := mix(seed ^ mix(n))
	for i := 0; i < len(b); i += 8 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], mix(x+uint64(i/8)))
		for k := 0; k < 8 && i+k < len(b); k++ {
			if b[i+k] != w[k] {
				return i + k
			}
		}
	}
	return -1
}
