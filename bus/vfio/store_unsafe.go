//go:build linux && amd64

package vfio

import "unsafe"

// The processor keeps the order of stores, and an aligned store is one instruction. A store of package sync/atomic
// would be an exchange, which reads the register, too. The functions are not inlined, so the compiler does not move
// other accesses across them.

//go:noinline
func store32(b []byte, off uint64, v uint32) { *(*uint32)(unsafe.Pointer(&b[off])) = v }

//go:noinline
func store64(b []byte, off, v uint64) { *(*uint64)(unsafe.Pointer(&b[off])) = v }
