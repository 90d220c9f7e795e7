//go:build linux && !amd64

package vfio

import (
	"sync/atomic"
	"unsafe"
)

// A store of package sync/atomic follows what the program wrote to memory before.

func store32(b []byte, off uint64, v uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[off])), v)
}

func store64(b []byte, off, v uint64) { atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[off])), v) }
