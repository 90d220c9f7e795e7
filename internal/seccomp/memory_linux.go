//go:build amd64 || arm64

package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const pageSize = 4096

// readMemory copies from a process.
func readMemory(tid int, addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err != nil || n != len(b) {
		return syscall.EFAULT
	}
	return nil
}

// checkAccess reports whether the system lets this process copy from and to another one of its own. Without that, the
// supervisor cannot read the paths of calls, and programs would find the machine's devices.
func checkAccess(pid int) error {
	local := []unix.Iovec{{Base: new(byte), Len: 1}}
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) { // there is nothing at the address 0, but it was looked up
		return nil
	}
	return fmt.Errorf("the system does not let ddkrun read the memory of a program that it starts, as with 2 or 3 in "+
		"kernel.yama.ptrace_scope (use --carrier preload for dynamic programs): %w", err)
}

// writeMemory copies to a process.
func writeMemory(tid int, addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMWritev(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err != nil || n != len(b) {
		return syscall.EFAULT
	}
	return nil
}

// pagesOfCall is the number of pages that the kernel brings in for a copy before it copies.
const pagesOfCall = 1024

// noAccess is memory without rights, from and to which no copy is possible.
var noAccess = sync.OnceValues(func() ([]byte, error) {
	return unix.Mmap(-1, 0, pagesOfCall*os.Getpagesize(), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
})

// populate brings in the pages of a process, by faults of writes if isWritten. The copies fail when the kernel has done
// that, so nothing is read or written. It returns whether the pages are there; the process's monitor may supply them
// (userfaultfd).
func populate(tid int, addr, size uint64, isWritten bool) bool {
	none, err := noAccess()
	page := uint64(os.Getpagesize())
	for end := addr + size; err == nil && addr < end; {
		n := min(end-addr, uint64(len(none))-addr%page)
		local := []unix.Iovec{{Base: &none[0]}}
		local[0].SetLen(int(n))
		remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: int(n)}}
		if isWritten {
			_, _ = unix.ProcessVMWritev(tid, local, remote, 0) // it fails in any case
		} else {
			_, _ = unix.ProcessVMReadv(tid, local, remote, 0)
		}
		addr += n
		err = readMemory(tid, addr-1, make([]byte, 1))
	}
	return err == nil
}

// readPath copies a path. Error: EFAULT; ENAMETOOLONG.
func readPath(tid int, addr uint64) (string, error) {
	var path []byte
	for len(path) < unix.PathMax {
		part := make([]byte, pageSize-addr%pageSize) // the next page may not exist
		if err := readMemory(tid, addr, part); err != nil {
			return "", err
		}
		if before, _, ok := bytes.Cut(part, []byte{0}); ok {
			return string(append(path, before...)), nil
		}
		path = append(path, part...)
		addr += uint64(len(part))
	}
	return "", syscall.ENAMETOOLONG
}
