package usersuite

import (
	"os"
	"syscall"
)

// mapFile maps the first n bytes of a file, shared with its other users.
func mapFile(f *os.File, n int) (b []byte, unmap func(), err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		b, err = syscall.Mmap(int(fd), 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}); e != nil {
		return nil, nil, e
	}
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return b, func() { _ = syscall.Munmap(b) }, nil // the range was mapped above
}
