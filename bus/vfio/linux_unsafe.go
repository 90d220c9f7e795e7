//go:build linux

package vfio

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// linux is the kernel of this machine.
//
// It is safe to pass addresses of arguments to ioctl: they are alive and do not move during the call, and their sizes
// are those that the requests have. Memory for DMA is pinned by the kernel; it is a mapping, or the caller of MapDMA
// keeps it in place.
type linux struct{}

func (linux) open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func (linux) close(fd int) error                   { return unix.Close(fd) }
func (linux) readlink(path string) (string, error) { return os.Readlink(path) }

func (linux) ioctl(fd int, request uint32, arg []byte) (int, error) {
	return call(fd, request, uintptr(unsafe.Pointer(&arg[0])))
}

func (linux) ioctlInt(fd int, request uint32, arg int) (int, error) {
	return call(fd, request, uintptr(arg))
}

func (linux) ioctlMemory(fd int, request uint32, arg []byte, at int, memory []byte) error {
	page := uint64(os.Getpagesize())
	native.PutUint64(arg[at:], uint64(uintptr(unsafe.Pointer(&memory[0])))/page*page)
	_, err := call(fd, request, uintptr(unsafe.Pointer(&arg[0])))
	runtime.KeepAlive(memory)
	return err
}

//go:uintptrescapes
func call(fd int, request uint32, arg uintptr) (int, error) {
	r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), arg)
	if e != 0 {
		return 0, os.NewSyscallError("ioctl", e)
	}
	return int(r), nil
}

func (linux) pread(fd int, b []byte, off int64) (int, error)  { return unix.Pread(fd, b, off) }
func (linux) pwrite(fd int, b []byte, off int64) (int, error) { return unix.Pwrite(fd, b, off) }

func (linux) mapFile(fd int, off int64, n int) ([]byte, error) {
	return unix.Mmap(fd, off, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func (linux) allocate(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func (linux) unmap(b []byte) error { return unix.Munmap(b) }

// Open opens a function of this machine by its address, such as 0000:03:00.0. Errors: the function is not bound to
// vfio-pci, its group is not viable, or the caller has no rights.
func Open(address string) (*Function, error) { return open(linux{}, address) }
