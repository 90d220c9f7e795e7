package ual

import (
	"os"

	"golang.org/x/sys/unix"
)

// newShared returns a sealed memfd of n bytes, a multiple of the page size, and its mapping.
func newShared(n int) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate("ual", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "ual")
	const seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if err = unix.Ftruncate(fd, int64(n)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	var b []byte
	if err == nil {
		b, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
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
