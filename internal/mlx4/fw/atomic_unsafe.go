package fw

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Dwords by which driver and adapter pass ownership are read and written as a whole, in order with other memory. The
// slices have 4 bytes or more, which the functions check, so the pointers are valid as long as the slices.

// Load32 reads an aligned big-endian dword that the adapter writes concurrently. Later reads see what the adapter wrote
// before.
func Load32(b []byte) uint32 {
	var v [4]byte
	binary.NativeEndian.PutUint32(v[:], atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4])))))
	return binary.BigEndian.Uint32(v[:])
}

// Store32 writes an aligned big-endian dword that the adapter polls, such as a doorbell record or the owner bit of a
// work queue entry. The adapter sees what was written before.
func Store32(b []byte, v uint32) {
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], v)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4]))), binary.NativeEndian.Uint32(n[:]))
}

// Store64 writes an aligned big-endian qword that the adapter reads as a whole, such as an address translation.
func Store64(b []byte, v uint64) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], v)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b[:8]))), binary.NativeEndian.Uint64(n[:]))
}
