//go:build linux

package bench

import "unsafe"

// sharedWord returns the 64-bit word at off of b, for atomic access. b is the beginning of a page.
func sharedWord(b []byte, off int) *uint64 {
	_ = b[off+7]
	return (*uint64)(unsafe.Pointer(&b[off]))
}
