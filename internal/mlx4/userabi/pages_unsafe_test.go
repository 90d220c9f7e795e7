package userabi

import "unsafe"

// pages returns n pages of zeros, aligned for words of 64 bits.
func pages(n int) []byte {
	w := make([]uint64, n*PageSize/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), n*PageSize)
}
