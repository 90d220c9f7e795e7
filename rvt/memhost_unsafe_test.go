package rvt

import (
	"sync/atomic"
	"unsafe"
)

// Accesses of a host program to memory that peers access, too.

func hostAdd(b []byte, n uint64) { atomic.AddUint64((*uint64)(unsafe.Pointer(&b[0])), n) }

func hostLoad(b []byte) uint64 { return atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[0]))) }
