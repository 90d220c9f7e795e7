//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/binary"
	"errors"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of seccomp have no wrappers in x/sys. They receive addresses of Go values that live until the call
// returns.

var ne = binary.NativeEndian

// notification is struct seccomp_notif.
type notification struct {
	id   uint64
	tid  uint32
	_    uint32
	nr   int32
	arch uint32
	_    uint64
	args [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32 // negative, or 0
	flags uint32
}

// addition is struct seccomp_notif_addfd.
type addition struct {
	id                  uint64
	flags, source       uint32
	number, numberFlags uint32
}

const (
	ioctlValid = 0x40082102
	ioctlAdd   = 0x40182103
	ioctlFlags = 0x40082104
)

// syncWakeUp is the flag of a listener by which the supervisor runs at once on the processor of the program that it is
// notified of, and the program on that of the supervisor that responds (Linux 6.6).
const syncWakeUp = 1

// installFilter installs a filter in this thread and returns the listener.
func installFilter(p []unix.SockFilter, flags uintptr) (listener int, err error) {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: unsafe.SliceData(p)}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// ioctl repeats the call if signals interrupt it.
func ioctl(fd int, request uintptr, p unsafe.Pointer) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
		if errno == 0 {
			return int(n), nil
		}
		if !errors.Is(errno, unix.EINTR) {
			return -1, errno
		}
	}
}

// receive receives a notification. Error: ENOENT if the program was interrupted.
func receive(listener int, n *notification) error {
	*n = notification{}
	_, err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return err
}

// respond completes a call. Error: ENOENT if it no longer waits.
func respond(listener int, r *response) error {
	_, err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
	return err
}

// isValid reports whether the call of a notification still waits.
func isValid(listener int, id uint64) bool {
	_, err := ioctl(listener, ioctlValid, unsafe.Pointer(&id))
	return err == nil
}

// setFlags sets the flags of a listener. Error: EINVAL, ENOTTY (the kernel is older).
func setFlags(listener int, flags uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), ioctlFlags, flags)
	if errno != 0 {
		return errno
	}
	return nil
}

// add installs a descriptor in the program and returns its number.
func add(listener int, a *addition) (int, error) {
	return ioctl(listener, ioctlAdd, unsafe.Pointer(a))
}

// errnoOf returns the errno of an error.
func errnoOf(err error) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return syscall.EIO
}

// setDefault sets the effect of a signal on this process to the default one. Package os/signal leaves those that the
// processor causes to the Go runtime, which would print its goroutines.
func setDefault(s syscall.Signal) {
	var action struct{ handler, flags, restorer, mask uint64 } // struct sigaction of the kernel; SIG_DFL is 0
	// It fails for SIGKILL only, which has its default effect.
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0,
		unsafe.Sizeof(action.mask), 0, 0)
}
