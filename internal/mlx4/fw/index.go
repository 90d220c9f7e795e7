package fw

import (
	"fmt"
	"math/bits"
	"sync"
)

// indexes allocates numbers from first to limit-1. It goes on behind the number that it allocated last, so that a
// number is not used again soon.
type indexes struct {
	name         string
	first, limit uint32

	mu   sync.Mutex
	used []uint64
	next uint32
	free uint32
}

func newIndexes(name string, first, limit uint32) *indexes {
	first = min(first, limit)
	x := &indexes{name: name, first: first, limit: limit, used: make([]uint64, (limit+63)/64), next: first,
		free: limit - first}
	return x
}

// alloc allocates n consecutive numbers, the first of which is a multiple of align, a power of two.
func (x *indexes) alloc(n, align uint32) (uint32, error) {
	if n == 0 || align == 0 || align&(align-1) != 0 {
		return 0, fmt.Errorf("%w: %d %s, aligned to %d", ErrInvalid, n, x.name, align)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n <= x.free {
		at, ok := x.find(x.next, x.limit, n, align)
		if !ok {
			at, ok = x.find(x.first, x.limit, n, align)
		}
		if ok {
			x.set(at, n, true)
			x.free -= n
			x.next = at + n
			return at, nil
		}
	}
	return 0, fmt.Errorf("%w: %d %s, aligned to %d (%d are free)", ErrExhausted, n, x.name, align, x.free)
}

// find returns the first run of unused numbers in a range. mu is held.
func (x *indexes) find(from, limit, n, align uint32) (uint32, bool) {
	mask := uint64(align) - 1
	at := (uint64(from) + mask) &^ mask
	for at+uint64(n) <= uint64(limit) {
		used, ok := x.firstUsed(uint32(at), n)
		if !ok {
			return uint32(at), true
		}
		behind := x.firstUnused(used)
		at = (uint64(behind) + mask) &^ mask
	}
	return 0, false
}

// firstUsed returns the first number in use of n from at on. mu is held.
func (x *indexes) firstUsed(at, n uint32) (uint32, bool) {
	for end := at + n; at < end; {
		w := x.used[at/64] >> (at % 64)
		if w != 0 {
			at += uint32(bits.TrailingZeros64(w))
			return at, at < end
		}
		at += 64 - at%64
	}
	return 0, false
}

// firstUnused returns the first unused number from at on, or a number beyond the limit. mu is held.
func (x *indexes) firstUnused(at uint32) uint32 {
	for at < x.limit {
		w := ^x.used[at/64] >> (at % 64)
		if w != 0 {
			return at + uint32(bits.TrailingZeros64(w))
		}
		at += 64 - at%64
	}
	return x.limit
}

// set marks numbers. mu is held.
func (x *indexes) set(at, n uint32, used bool) {
	for i := at; i < at+n; i++ {
		if used {
			x.used[i/64] |= 1 << (i % 64)
		} else {
			x.used[i/64] &^= 1 << (i % 64)
		}
	}
}

// release releases numbers. Those that are not allocated are ignored.
func (x *indexes) release(at, n uint32) {
	if at < x.first || at >= x.limit || n > x.limit-at {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := at; i < at+n; i++ {
		if x.used[i/64]>>(i%64)&1 != 0 {
			x.set(i, 1, false)
			x.free++
		}
	}
}
