package vfio

import (
	"encoding/binary"
)

// fromNative32 and fromNative64 convert between the number that the processor reads from a mapped little-endian
// register and the register's number, in both directions.

func fromNative32(v uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], v)
	return binary.LittleEndian.Uint32(b[:])
}

func fromNative64(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.LittleEndian.Uint64(b[:])
}
