package kproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ciddk/ci"
)

var hostOrder = binary.NativeEndian

// processReach is the means to reach a process's memory: process_vm_readv and process_vm_writev. The pidfd is checked
// before each copy, because the number of a process that has exited can be assigned to another one.
type processReach struct {
	pid   int
	pidfd int // -1: the process cannot be reached
}

func (r *processReach) open(pid int) {
	r.pid, r.pidfd = pid, -1
	if pid <= 0 {
		return
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		r.pidfd = fd
	}
}

func (r *processReach) close() {
	if r.pidfd >= 0 {
		unix.Close(r.pidfd)
		r.pidfd = -1
	}
}

// exited reports whether the process has exited, or was never found.
func (r *processReach) exited() bool {
	if r.pidfd < 0 {
		return true
	}
	return unix.PidfdSendSignal(r.pidfd, 0, nil, 0) != nil
}

func (r *processReach) read(b []byte, addr uint64) (int, error) {
	if r.exited() {
		return 0, ci.InvalidState
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(r.pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	return copied(n, len(b), err, io.ErrUnexpectedEOF)
}

func (r *processReach) write(b []byte, addr uint64) (int, error) {
	if r.exited() {
		return 0, ci.InvalidState
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMWritev(r.pid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	return copied(n, len(b), err, io.ErrShortWrite)
}

// copied returns the result of a copy of n out of want bytes.
func copied(n, want int, err, short error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case n < want:
		return n, short
	}
	return n, nil
}

// check validates that a range is mapped with the rights needed, and that the system permits copies.
func (r *processReach) check(addr, length uint64, write bool) error {
	if length == 0 {
		return nil
	}
	if r.exited() {
		return fmt.Errorf("process %d has exited, or is not in the daemon's PID namespace", r.pid)
	}
	if err := mapped(r.pid, addr, length, write); err != nil {
		return err
	}
	var b [1]byte
	_, err := r.read(b[:], addr)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the system does not let the daemon, process %d, reach it: %w "+
			"(see kernel.yama.ptrace_scope; memory of ual.NewMemory is shared and needs no such right)",
			os.Getpid(), err)
	}
	return err
}

// maxMaps bounds the text of /proc/PID/maps that is read: the kernel's default limit of mappings, 100 bytes each.
const maxMaps = 65530 * 100

// mapped validates that every page of a range is mapped with the rights needed.
func mapped(pid int, addr, length uint64, write bool) error {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return err
	}
	defer f.Close()
	need := addr
	for s := bufio.NewScanner(io.LimitReader(f, maxMaps)); s.Scan(); {
		from, to, rights, err := parseMapping(s.Text())
		switch {
		case err != nil:
			return err
		case to <= need:
			continue
		case from > need:
			return fmt.Errorf("address %x is not mapped", need)
		case rights[0] != 'r' || write && rights[1] != 'w':
			return fmt.Errorf("address %x is mapped %s, which does not permit the access", need, rights)
		case to-addr >= length:
			return nil
		}
		need = to
	}
	return fmt.Errorf("address %x is not mapped", need)
}

// parseMapping parses the beginning of a line of /proc/PID/maps: "from-to rwxp".
func parseMapping(line string) (from, to uint64, rights string, err error) {
	span, rest, _ := strings.Cut(line, " ")
	a, b, _ := strings.Cut(span, "-")
	from, e1 := strconv.ParseUint(a, 16, 64)
	to, e2 := strconv.ParseUint(b, 16, 64)
	if e1 != nil || e2 != nil || len(rest) < 4 {
		return 0, 0, "", fmt.Errorf("line %q of the process's maps has an unknown form", line)
	}
	return from, to, rest[:4], nil
}

// isOwnUser reports whether a client has the daemon's user id, or is root.
func isOwnUser(p Peer) bool { return p.UID == 0 || p.UID == os.Getuid() }
