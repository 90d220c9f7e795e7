package queue

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Words of memory that the adapter reads and writes concurrently. Rings are made of memory whose address is a multiple
// of 64, and all callers pass multiples of 4 in them, so the pointers are aligned and as valid as the slices.

// load32 reads a big-endian word. Reads that follow see what the adapter wrote before the word.
func load32(b []byte) uint32 {
	return swap32(atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4])))))
}

// store32 writes a big-endian word. The adapter sees all earlier writes when it sees the word.
func store32(b []byte, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4]))), swap32(v))
}

// swap32 converts between big endian and the order of the machine.
func swap32(v uint32) uint32 {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], v)
	return binary.NativeEndian.Uint32(b[:])
}

// isAligned reports whether memory can be a ring's.
func isAligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 == 0 }
