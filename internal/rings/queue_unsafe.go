package rings

import "unsafe"

// word returns the 32-bit word at off of b, for atomic access. The word must be within b and aligned to 4.
func word(b []byte, off int) *uint32 {
	_ = b[off+3]
	return (*uint32)(unsafe.Pointer(&b[off]))
}

// alignedBytes returns n zero bytes, aligned to 8 as the 64-bit fields of the layout require. n is positive.
func alignedBytes(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), len(w)*8)[:n:n]
}

// aligned reports whether the address of b is a multiple of 8.
func aligned(b []byte) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0 }

// word64 is the 64-bit word at off of b, for atomic access. b is aligned to 8 and has the word.
func word64(b []byte, off int) *uint64 {
	_ = b[off+7]
	return (*uint64)(unsafe.Pointer(&b[off]))
}
