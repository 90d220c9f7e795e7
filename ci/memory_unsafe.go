package ci

import "unsafe"

// Addr is only ever a number here: nothing in the kit turns it back into a pointer.
func (b bytesMemory) Addr() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
