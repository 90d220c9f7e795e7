package memfd

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Seals are those of a file that Create returns: its size is fixed, and so are the seals.
const Seals = unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// Create returns a sealed memfd of size bytes, all zero. The name is for /proc. Pages that are not used occupy no
// memory.
func Create(name string, size int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(int64(size)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, Seals); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl F_ADD_SEALS", err), f.Close())
	}
	return f, nil
}
