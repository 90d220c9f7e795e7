//go:build linux

package vfio

import "unsafe"

// The functions below access a mapped register with one instruction. Offsets are aligned and within the mapping, which
// bus.NewSpace has checked.

//go:noinline
func load32(b []byte, off uint64) uint32 { return *(*uint32)(unsafe.Pointer(&b[off])) }

//go:noinline
func load64(b []byte, off uint64) uint64 { return *(*uint64)(unsafe.Pointer(&b[off])) }
