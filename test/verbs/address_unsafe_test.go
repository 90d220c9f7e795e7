//go:build linux

package verbs

import "unsafe"

// addressOf returns the address of memory that is not moved, such as a mapping, as a number for a device.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
