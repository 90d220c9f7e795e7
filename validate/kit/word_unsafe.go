package kit

import (
	"sync/atomic"
	"unsafe"
)

// word returns the aligned 64-bit word at the start of b. By the memory model, polling registered memory and atomics
// shared with the HCA need sync/atomic, which has no access to slices.
func word(b []byte) *uint64 {
	p := unsafe.Pointer(&b[:8][0])
	if uintptr(p)%8 != 0 {
		panic("kit: the word is not aligned to 8 bytes")
	}
	return (*uint64)(p)
}

// LoadWord loads the word at the start of b atomically. The word must be aligned to 8 bytes, also for the functions
// below.
func LoadWord(b []byte) uint64 { return atomic.LoadUint64(word(b)) }

// StoreWord stores v in the word atomically.
func StoreWord(b []byte, v uint64) { atomic.StoreUint64(word(b), v) }

// AddWord adds d to the word atomically and returns the new value.
func AddWord(b []byte, d uint64) uint64 { return atomic.AddUint64(word(b), d) }

// SwapWord stores new in the word if it is old, atomically, and reports whether it was.
func SwapWord(b []byte, old, new uint64) bool { return atomic.CompareAndSwapUint64(word(b), old, new) }
