//go:build race && unix

package explore

import "syscall"

// pages returns n bytes that begin at a page, outside Go's heap. Traces let adapters read and write the same bytes at
// the same time, and poll them, as no Go program may; the race detector watches the heap only. The mapping stays: a
// wrong driver may use it after the run.
func pages(n int) []byte {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic("explore: memory for a run: " + err.Error())
	}
	return b
}
