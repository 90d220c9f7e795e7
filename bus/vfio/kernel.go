//go:build linux

package vfio

// A kernel is what the package needs of Linux. Arguments of ioctls are structures in native byte order.
type kernel interface {
	open(path string) (fd int, err error)
	close(fd int) error
	readlink(path string) (string, error)
	// ioctl passes the address of arg, which the kernel reads and writes.
	ioctl(fd int, request uint32, arg []byte) (result int, err error)
	// ioctlInt passes a number.
	ioctlInt(fd int, request uint32, arg int) (result int, err error)
	// ioctlMemory is like ioctl. The address of memory is put into arg at an offset.
	ioctlMemory(fd int, request uint32, arg []byte, at int, memory []byte) error
	pread(fd int, b []byte, off int64) (int, error)
	pwrite(fd int, b []byte, off int64) (int, error)
	// mapFile maps n bytes of a descriptor, and allocate maps n bytes of new memory.
	mapFile(fd int, off int64, n int) ([]byte, error)
	allocate(n int) ([]byte, error)
	unmap(b []byte) error
}
