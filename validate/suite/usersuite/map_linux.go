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

// mapPages maps n pages of memory. protect makes a page read-only, or inaccessible.
func mapPages(n int) (b []byte, protect func(page int, inaccessible bool) error, unmap func(), err error) {
	size := os.Getpagesize()
	b, err = syscall.Mmap(-1, 0, n*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, nil, os.NewSyscallError("mmap", err)
	}
	protect = func(page int, inaccessible bool) error {
		rights := syscall.PROT_READ
		if inaccessible {
			rights = syscall.PROT_NONE
		}
		return os.NewSyscallError("mprotect", syscall.Mprotect(b[page*size:(page+1)*size], rights))
	}
	return b, protect, func() { _ = syscall.Munmap(b) }, nil // the range was mapped above
}
