//go:build linux

package kproxy

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Requests of userfaultfd (linux/userfaultfd.h).
const (
	uffdioAPI      = 0xc018aa3f
	uffdioRegister = 0xc020aa00
)

// sysUserfaultfd is the number of the system call.
var sysUserfaultfd = map[string]uintptr{"amd64": 323, "arm64": 282}[runtime.GOARCH]

// withoutPages makes accesses to b wait until the result is closed. A read of 32 bytes from it returns when an access
// waits. The test is skipped where the system does not permit that.
func withoutPages(t *testing.T, b []byte) *os.File { return withoutPagesFor(t, b, 0) }

// userModeOnly makes accesses of the kernel fail at once (UFFD_USER_MODE_ONLY). A process without privileges has no
// other userfaultfd, unless the system was configured so.
const userModeOnly = 1

// withoutPagesFor is withoutPages with flags of userfaultfd.
func withoutPagesFor(t *testing.T, b []byte, flags uintptr) *os.File {
	if sysUserfaultfd == 0 {
		t.Skip("the number of userfaultfd is not known on " + runtime.GOARCH)
	}
	fd, _, e := unix.Syscall(sysUserfaultfd, unix.O_CLOEXEC|flags, 0, 0)
	if e != 0 {
		t.Skipf("userfaultfd: %v (needs root or vm.unprivileged_userfaultfd)", e)
	}
	f := os.NewFile(fd, "userfaultfd")
	api := [3]uint64{0xaa} // version; features; requests
	call(t, f, uffdioAPI, unsafe.Pointer(&api))
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&b[0]))), uint64(len(b)), 1} // address, size, missing pages
	call(t, f, uffdioRegister, unsafe.Pointer(&register))
	require.NoError(t, unix.Madvise(b, unix.MADV_DONTNEED)) // the kernel may have put pages there (huge pages)
	return f
}

// mapOver maps a file in place of memory.
func mapOver(t *testing.T, b []byte, f *os.File) {
	_, _, e := unix.Syscall6(unix.SYS_MMAP, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED, f.Fd(), 0)
	require.Zero(t, e)
}

func call(t *testing.T, f *os.File, request uintptr, arg unsafe.Pointer) {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(arg))
	if e != 0 {
		t.Skipf("userfaultfd request %#x: %v", request, e)
	}
}
