package bus

import "unsafe"

// address returns the address of the first byte, as a number.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
