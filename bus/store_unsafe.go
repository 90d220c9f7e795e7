package bus

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// store copies src to dst, which is as long. The last 8 aligned bytes are stored at once and after all others, so that
// a program that has loaded a new last word also sees the rest, as package ci promises of a message.
func store(dst, src []byte) {
	tail := int((address(dst) + uint64(len(dst))) % 8) // bytes behind the word
	at := len(dst) - tail - 8
	if at < 0 {
		copy(dst, src)
		return
	}
	copy(dst[:at], src)
	copy(dst[at+8:], src[at+8:])
	// The word is in dst, and the address of its end is a multiple of 8.
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(dst[at:at+8]))), binary.NativeEndian.Uint64(src[at:]))
}
