package ual

import (
	"os"

	"golang.org/x/sys/unix"

	"ciddk/internal/memfd"
)

// newShared returns a sealed memfd of n bytes, a multiple of the page size, and its mapping.
func newShared(n int) (*os.File, []byte, error) {
	f, err := memfd.Create("ual", n)
	if err != nil {
		return nil, nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, b, nil
}

func unmap(b []byte) error { return unix.Munmap(b) }

// permitCopies lets the daemon reach this process's memory where the Yama security module demands it. Without Yama, the
// system call fails and nothing needs to be permitted.
func permitCopies(pid int) { _ = unix.Prctl(unix.PR_SET_PTRACER, uintptr(pid), 0, 0, 0) }
