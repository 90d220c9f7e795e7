package fw

import (
	"math/bits"
	"sync"
)

// buddy allocates blocks of 2^order units, at multiples of their size.
type buddy struct {
	mu    sync.Mutex
	max   int        // the order of the whole
	free  [][]uint64 // by order: bits of free blocks
	count []int      // by order: of free blocks
}

func newBuddy(maxOrder int) *buddy {
	b := &buddy{max: maxOrder, free: make([][]uint64, maxOrder+1), count: make([]int, maxOrder+1)}
	for o := range b.free {
		b.free[o] = make([]uint64, (1<<(maxOrder-o)+63)/64)
	}
	b.put(maxOrder, 0)
	return b
}

func (b *buddy) put(order int, block uint32) {
	b.free[order][block/64] |= 1 << (block % 64)
	b.count[order]++
}

func (b *buddy) take(order int, block uint32) {
	b.free[order][block/64] &^= 1 << (block % 64)
	b.count[order]--
}

func (b *buddy) isFree(order int, block uint32) bool {
	return b.free[order][block/64]>>(block%64)&1 != 0
}

// alloc returns the first unit of a block.
func (b *buddy) alloc(order int) (uint32, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for o := order; o >= 0 && o <= b.max; o++ {
		if b.count[o] == 0 {
			continue
		}
		block := b.find(o)
		b.take(o, block)
		for ; o > order; o-- { // the lower half is split on
			block *= 2
			b.put(o-1, block+1)
		}
		return block << order, true
	}
	return 0, false
}

// find returns the first free block of an order that has one.
func (b *buddy) find(order int) uint32 {
	for i, w := range b.free[order] {
		if w != 0 {
			return uint32(64*i + bits.TrailingZeros64(w))
		}
	}
	return 0
}

// release returns a block of alloc, and joins it with its free neighbours.
func (b *buddy) release(unit uint32, order int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	block := unit >> order
	for order < b.max && b.isFree(order, block^1) {
		b.take(order, block^1)
		block, order = block/2, order+1
	}
	b.put(order, block)
}
