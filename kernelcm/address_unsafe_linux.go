package kernelcm

import "unsafe"

// addressOf returns the address of the first byte of b, which must be pinned, or otherwise kept, while it is used.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
