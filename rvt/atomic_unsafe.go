package rvt

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"ciddk/ci"
	"ciddk/wire"
)

// Remote atomics use the atomic instructions of the processor on the storage itself. They are atomic among regions that
// alias, and with sync/atomic operations of the host on the same word (ci.AtomicGlobal). Operands are numbers in host
// order.

// word returns the 8 bytes that m begins with or, if this process cannot address them, the segment that they are in.
// Errors: they are outside, or are not aligned in storage.
func (m mem) word() (*uint64, segment, error) {
	if m.mr == nil || !m.mr.has(m.off, 8) {
		return nil, segment{}, errOutside
	}
	b := m.mr.flat
	if m.mr.segs == nil {
		b = b[m.off:]
	} else {
		s := m.mr.segs[m.mr.find(m.off)].part(m.off, 8)
		if s.n < 8 {
			return nil, segment{}, errMisaligned // an aligned word never crosses the extents of real storage
		}
		if s.b == nil {
			return nil, s, nil
		}
		b = s.b
	}
	if address(b)&7 != 0 {
		return nil, segment{}, errMisaligned
	}
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b))), segment{}, nil
}

// atomic executes a compare-swap (swap if the old value is compare) or a fetch-add (of swap), and returns the old
// value. Errors: those of word; the operand cannot be addressed directly.
func (m mem) atomic(op wire.Op, swap, compare uint64) (uint64, error) {
	word, s, err := m.word()
	switch {
	case err != nil:
		return 0, err
	case word == nil:
		return s.atomic(op, swap, compare)
	case op == wire.OpFetchAdd:
		return atomic.AddUint64(word, swap) - swap, nil
	}
	for {
		old := atomic.LoadUint64(word)
		if old != compare || atomic.CompareAndSwapUint64(word, old, swap) {
			return old, nil
		}
	}
}

// atomicWrite stores the bytes of an ATOMIC WRITE at once. Errors: as atomic.
func (m mem) atomicWrite(b *[8]byte) error {
	v := binary.NativeEndian.Uint64(b[:])
	word, s, err := m.word()
	switch {
	case err != nil:
		return err
	case word != nil:
		atomic.StoreUint64(word, v)
		return nil
	}
	var old, expected uint64
	for range maxSwaps { // the owner may change the word meanwhile
		if old, err = s.atomic(wire.OpCompareSwap, v, expected); err != nil || old == expected {
			return err
		}
		expected = old
	}
	return errNotDirect
}

// maxSwaps is how often an ATOMIC WRITE to storage that this process cannot address tries to replace the word.
const maxSwaps = 1000

// atomic is mem.atomic for storage that this process cannot address.
func (s *segment) atomic(op wire.Op, swap, compare uint64) (uint64, error) {
	a, ok := s.m.(ci.AtomicMemory)
	switch {
	case !ok:
		return 0, errNotDirect
	case (a.Addr()+s.at)&7 != 0:
		return 0, errMisaligned
	case op == wire.OpFetchAdd:
		return a.FetchAdd(s.at, swap)
	default:
		return a.CompareSwap(s.at, compare, swap)
	}
}
