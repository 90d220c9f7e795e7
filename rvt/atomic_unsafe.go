package rvt

import (
	"sync/atomic"
	"unsafe"

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
			return 0, errNotDirect
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
