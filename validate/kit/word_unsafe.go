package kit

import (
	"sync/atomic"
	"unsafe"
)

// word is the aligned 64-bit word at the start of b: the memory model allows spinning on registered memory, and atomics shared with the HCA,
// by sync/atomic only, and that has no access by slice.
func word(b []byte) *uint64 {
	p := unsafe.Pointer(&b[:8][0])
	if uintptr(p)%8 != 0 {
		panic("kit: a word that is not aligned")
	}
	return (*uint64)(p)
}

// LoadWord, StoreWord, AddWord and SwapWord are sync/atomic on the word at the start of b, which must be aligned.
func LoadWord(b []byte) uint64 { return atomic.LoadUint64(word(b)) }

// StoreWord: see LoadWord.
func StoreWord(b []byte, v uint64) { atomic.StoreUint64(word(b), v) }

// AddWord gives the new value: see LoadWord.
func AddWord(b []byte, d uint64) uint64 { return atomic.AddUint64(word(b), d) }

// SwapWord stores new if the word is old, and reports whether it was: see LoadWord.
func SwapWord(b []byte, old, new uint64) bool { return atomic.CompareAndSwapUint64(word(b), old, new) }
