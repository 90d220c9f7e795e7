package kproxy

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errNotSealed explains how to make a descriptor acceptable.
var errNotSealed = errors.New("not a memfd sealed against growing and shrinking (F_SEAL_GROW, F_SEAL_SHRINK)")

// checkSealed validates that a file's size cannot change, and that its pages exist when they are used: a memfd without
// huge pages. Anything else could end the daemon by a fault, when the client shrinks it. It returns the size.
func checkSealed(f *os.File) (size uint64, err error) {
	const need = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	err = control(f, func(fd int) error {
		seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil || seals&need != need {
			return errNotSealed
		}
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil {
			return os.NewSyscallError("fstatfs", err)
		}
		if fs.Type != unix.TMPFS_MAGIC {
			return fmt.Errorf("%w: huge pages may be missing when they are needed", errNotSealed)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		size = uint64(st.Size)
		return nil
	})
	return size, err
}

// control calls fn with the number of a descriptor.
func control(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = fn(int(fd)) }); e != nil {
		return e
	}
	return err
}

// mapShared maps n bytes at offset off of a client's memfd. The bytes are at addr in the client. The mapping can be
// written if the descriptor permits it, whether or not it is needed now, because rights can be added later.
func mapShared(f *os.File, addr, off, n uint64, write bool) (*mapping, error) {
	size, err := checkSealed(f)
	if err != nil {
		return nil, err
	}
	if n == 0 || off > size || n > size-off {
		return nil, fmt.Errorf("%d bytes at offset %d of a memfd of %d bytes", n, off, size)
	}
	page := uint64(os.Getpagesize())
	skip := off % page
	if (addr-off)%page != 0 {
		return nil, fmt.Errorf("address %x and file offset %x differ within a page", addr, off)
	}
	if skip+n > 1<<46 {
		return nil, fmt.Errorf("%d bytes are more than can be mapped", n)
	}
	b, err := mapFile(f, off-skip, skip+n, unix.PROT_READ|unix.PROT_WRITE)
	readOnly := err != nil && !write
	if readOnly {
		b, err = mapFile(f, off-skip, skip+n, unix.PROT_READ)
	}
	if err != nil {
		return nil, err
	}
	return &mapping{mem: &sharedMemory{b[skip:], addr}, readOnly: readOnly,
		unmap: func() error { return unix.Munmap(b) }}, nil
}

func mapFile(f *os.File, off, n uint64, rights int) (b []byte, err error) {
	err = control(f, func(fd int) error {
		b, err = unix.Mmap(fd, int64(off), int(n), rights, unix.MAP_SHARED)
		return os.NewSyscallError("mmap", err)
	})
	return b, err
}

// isNameless reports whether a descriptor is an object of the kernel that has no path, such as an eventfd. Their types
// are none, or that of a regular file.
func isNameless(f *os.File) bool {
	var name string
	err := control(f, func(fd int) (err error) {
		name, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		return err
	})
	return err == nil && !strings.HasPrefix(name, "/")
}

// checkFiles validates the descriptors of a client's private data: files must be sealed memfds.
func checkFiles(files []*os.File) error {
	for i, f := range files {
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() && !isNameless(f) {
			_, err = checkSealed(f)
		}
		if err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	return nil
}
