package ci

import "unsafe"

// Addr uses the address as a number only: no code of this module turns it back into a pointer.
func (b bytesMemory) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
