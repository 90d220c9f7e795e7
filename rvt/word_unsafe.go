package rvt

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// storeRelease stores the first 8 bytes of src to dst, which is aligned, in one piece and after everything stored
// before.
func storeRelease(dst, src []byte) {
	_ = dst[7]
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(dst))), binary.NativeEndian.Uint64(src))
}

// endMisalignment is the number of bytes between the last 8-byte boundary in storage and the end of b.
func endMisalignment(b []byte) uint64 { return (uint64(address(b)) + uint64(len(b))) & 7 }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
