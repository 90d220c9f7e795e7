package usersuite

import (
	"errors"
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

// usedParts returns the parts of a file of n bytes that are not holes. It does not move the offset of f for other users
// of the file, which do not read it.
func usedParts(f *os.File, n int) (list [][2]int, err error) {
	const seekData, seekHole = 3, 4 // of lseek(2)
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	e := raw.Control(func(fd uintptr) {
		for at := int64(0); at < int64(n); {
			var from, to int64
			if from, err = syscall.Seek(int(fd), at, seekData); err != nil {
				if errors.Is(err, syscall.ENXIO) { // holes up to the end
					err = nil
				}
				return
			}
			if to, err = syscall.Seek(int(fd), from, seekHole); err != nil {
				return
			}
			list = append(list, [2]int{int(from), int(min(to, int64(n)))})
			at = to
		}
	})
	if e != nil {
		return nil, e
	}
	return list, os.NewSyscallError("lseek", err)
}

// duplicated returns another descriptor of a file.
func duplicated(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := -1
	if e := raw.Control(func(fd uintptr) { d, err = syscall.Dup(int(fd)) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(d), f.Name()), nil
}
