package userqueues

import (
	"sync/atomic"
	"unsafe"
)

// word returns the 4 bytes at off, a multiple of 4. The bytes begin at a page.
func word(b []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&b[off : off+4][0]))
}
