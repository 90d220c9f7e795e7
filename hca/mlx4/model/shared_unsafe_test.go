package model_test

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The test driver shares dwords with the adapter, as a driver does. All of them are aligned parts of DMA memory.

// load reads a dword that the adapter writes.
func load(b []byte) uint32 {
	var v [4]byte
	binary.NativeEndian.PutUint32(v[:], atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b)))))
	return binary.BigEndian.Uint32(v[:])
}

// store writes a dword that the adapter reads.
func store(b []byte, v uint32) {
	var be [4]byte
	binary.BigEndian.PutUint32(be[:], v)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(be[:]))
}
