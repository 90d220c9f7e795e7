package rvt

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"ciddk/wire"
)

// Remote atomics are the processor's own, on the storage itself: so they are atomic among regions that alias, and with the host's
// use of sync/atomic on the same word (ci.AtomicGlobal). Operands are numbers in host order.

// atomic executes a compare-swap (swap if the old value is compare) or a fetch-add (of swap), and returns the old value. Errors: the
// operand is outside, is not aligned in storage, or cannot be addressed directly.
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

// storeRelease stores the first 8 bytes of src to dst, which is aligned, in one piece and after everything stored before.
func storeRelease(dst, src []byte) {
	_ = dst[7]
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(dst))), binary.NativeEndian.Uint64(src))
}

// endMisalignment is the number of bytes between the last 8-byte boundary in storage and the end of b.
func endMisalignment(b []byte) uint64 { return (uint64(address(b)) + uint64(len(b))) & 7 }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
