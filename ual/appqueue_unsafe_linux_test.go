package ual_test

import (
	"sync/atomic"
	"unsafe"
)

// producer returns the producer's index of a queue, which another process, or another goroutine for it, loads or stores
// at once.
func (q *appQueue) producer() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&q.b[0])) }
