package soft

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// copyLast copies len(src) bytes, at least one. It stores the last aligned 8 bytes after all others, with release: see
// the memory model in package ci.
func copyLast(dst, src []byte) {
	end := len(src) - int(uintptr(unsafe.Pointer(unsafe.SliceData(dst)))+uintptr(len(src)))&7
	if end < 8 {
		copy(dst, src)
		return
	}
	copy(dst[:end-8], src[:end-8])
	copy(dst[end:len(src)], src[end:])
	// The choice of end makes the address a multiple of 8, and the 8 bytes are within dst.
	word := (*uint64)(unsafe.Pointer(&dst[end-8]))
	atomic.StoreUint64(word, binary.NativeEndian.Uint64(src[end-8:]))
}
