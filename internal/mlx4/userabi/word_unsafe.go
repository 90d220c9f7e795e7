package userabi

import "unsafe"

// word returns the 32-bit word at off of b, for atomic access. It panics if the word is not within b. b begins with a
// page, and off is a multiple of 4, so that the word is aligned.
func word(b []byte, off int) *uint32 {
	_ = b[off+3]
	return (*uint32)(unsafe.Pointer(&b[off]))
}

// word64 returns the 64-bit word at off of b, as word.
func word64(b []byte, off int) *uint64 {
	_ = b[off+7]
	return (*uint64)(unsafe.Pointer(&b[off]))
}
