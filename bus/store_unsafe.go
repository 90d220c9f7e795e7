package bus

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// Accesses to memory that another process uses at the same time. The pointers are to bytes of a slice, and aligned.

// store copies src to the beginning of dst, which is not shorter. The last 8 aligned bytes are stored at once and after
// all others, so that a program that has loaded a new last word also sees the rest, as package ci promises of a
// message. An aligned dword is stored as a whole, too.
func store(dst, src []byte) {
	dst = dst[:len(src)]
	if isDword(dst) {
		atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(dst))), binary.NativeEndian.Uint32(src))
		return
	}
	tail := int((address(dst) + uint64(len(dst))) % 8) // bytes behind the word
	at := len(dst) - tail - 8
	if at < 0 {
		copy(dst, src)
		return
	}
	copy(dst[:at], src)
	copy(dst[at+8:], src[at+8:])
	atomic.StoreUint64(word(dst[at:]), binary.NativeEndian.Uint64(src[at:]))
}

// load copies the beginning of src to dst, which is not longer. An aligned dword is loaded as a whole.
func load(dst, src []byte) {
	src = src[:len(dst)]
	if isDword(src) {
		binary.NativeEndian.PutUint32(dst, atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(src)))))
		return
	}
	copy(dst, src)
}

func isDword(b []byte) bool { return len(b) == 4 && address(b)%4 == 0 }

// word returns the word that b begins with, which is aligned.
func word(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[:8]))) }

// operate executes an operation on the word that b begins with. The processors of the host see it as atomic.
func operate(b []byte, a Atomic) (old uint64) {
	w := word(b)
	if !a.IsSwap {
		return atomic.AddUint64(w, a.Operand) - a.Operand
	}
	for {
		old = atomic.LoadUint64(w)
		if old != a.Compare || atomic.CompareAndSwapUint64(w, old, a.Operand) {
			return old
		}
	}
}
