package rvt

import (
	"sync/atomic"
	"unsafe"

	"ciddk/ci"
	"ciddk/wire"
)

// Remote atomics use the atomic instructions of the processor on the storage itself. They are atomic among regions that
// alias, and with sync/atomic operations of the host on the same word (ci.AtomicGlobal). Operands are numbers in host
// order.

// atomic executes a compare-swap (swap if the old value is compare) or a fetch-add (of swap), and returns the old
// value. Errors: the operand is outside, is not aligned in storage, or cannot be addressed directly.
func (m mem) atomic(op wire.Op, swap, compare uint64) (uint64, error) {
	if m.mr == nil || !m.mr.has(m.off, 8) {
		return 0, errOutside
	}
	b := m.mr.flat
	if m.mr.segs == nil {
		b = b[m.off:]
	} else {
		s := m.mr.segs[m.mr.find(m.off)].part(m.off, 8)
		if s.b == nil {
			return s.atomic(op, swap, compare)
		}
		if s.n < 8 {
			return 0, errMisaligned // an aligned word never crosses the extents of real storage
		}
		b = s.b
	}
	if address(b)&7 != 0 {
		return 0, errMisaligned
	}
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
	if op == wire.OpFetchAdd {
		return atomic.AddUint64(word, swap) - swap, nil
	}
	for {
		old := atomic.LoadUint64(word)
		if old != compare || atomic.CompareAndSwapUint64(word, old, swap) {
			return old, nil
		}
	}
}

// atomic is mem.atomic for storage that this process cannot address.
func (s *segment) atomic(op wire.Op, swap, compare uint64) (uint64, error) {
	a, ok := s.m.(ci.AtomicMemory)
	switch {
	case !ok:
		return 0, errNotDirect
	case s.n < 8 || (a.Addr()+s.at)&7 != 0:
		return 0, errMisaligned
	case op == wire.OpFetchAdd:
		return a.FetchAdd(s.at, swap)
	default:
		return a.CompareSwap(s.at, compare, swap)
	}
}
