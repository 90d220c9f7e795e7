package model

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Dwords of the host's memory, of which a View has a slice. The callers have checked that the slice has 4 bytes and is
// aligned, so the pointers are valid as long as the View.

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
