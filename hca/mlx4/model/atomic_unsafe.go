package model

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Atomic operations on memory of the host, of which a View has a slice. The processors of the host see them as atomic.
// The callers have checked that the slice has 8 bytes and is aligned, so the pointers are valid as long as the View.

func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%wordSize == 0 }

func fetchAdd(b []byte, add uint64) uint64 {
	return atomic.AddUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), add) - add
}

func compareSwap(b []byte, compare, swap uint64) uint64 {
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
	for {
		old := atomic.LoadUint64(word)
		if old != compare || atomic.CompareAndSwapUint64(word, old, swap) {
			return old
		}
	}
}

// loadDword reads the first 4 bytes of memory that a driver writes to concurrently. Reads that follow it see what the
// driver wrote before.
func loadDword(b []byte) (v [dwordSize]byte) {
	w := atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))))
	binary.NativeEndian.PutUint32(v[:], w)
	return v
}

// storeDword writes the first 4 bytes of memory that a driver polls. The driver sees what was written before.
func storeDword(b []byte, v [dwordSize]byte) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(v[:]))
}

func isDwordAligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%dwordSize == 0
}
