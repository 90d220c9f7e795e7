//go:build amd64 || arm64

package seccomp

import (
	"bytes"
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

// readPath copies a path. Error: EFAULT; ENAMETOOLONG.
func readPath(tid int, addr uint64) (string, error) {
	var path []byte
	for len(path) < unix.PathMax {
		part := make([]byte, pageSize-addr%pageSize) // the next page may not exist
		if err := readMemory(tid, addr, part); err != nil {
			return "", err
		}
		if i := bytes.IndexByte(part, 0); i >= 0 {
			return string(append(path, part[:i]...)), nil
		}
		path = append(path, part...)
		addr += uint64(len(part))
	}
	return "", syscall.ENAMETOOLONG
}
