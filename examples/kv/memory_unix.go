//go:build unix

package main

import "syscall"

// mapMemory returns n bytes of memory that is not Go's. Programs and HCAs use the table at the same time, which Go's
// memory model excludes for Go's own memory: the race detector, which does not watch a mapping, would report it where
// the HCA is software in this process.
func mapMemory(n int) ([]byte, error) {
	return syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}
