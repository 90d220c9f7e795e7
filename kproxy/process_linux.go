package kproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"ciddk/ci"
)

var hostOrder = binary.NativeEndian

// processReach is the means to reach a process's memory.
//
// The process that connected may execute a program of another user (setuid) and keep its number. A daemon without
// CAP_SYS_PTRACE copies by number (process_vm_readv, process_vm_writev): the kernel checks each copy, and denies it
// then. A daemon with that capability would be allowed. It opens /proc/PID/mem once, which remains bound to the address
// space that it had then, and checks whose that is. With Config.KernelChecks, it does so only for memory that the
// kernel would deny it without the capability, and the threads that copy other memory give the capability up.
//
// The pidfd is checked before each copy by number, because the number of a process that has exited can be assigned to
// another one.
type processReach struct {
	pid, uid int
	pidfd    int // -1: the process cannot be reached
	isBound  bool
	lowers   bool // copies by number are those of threads without CAP_SYS_PTRACE

	once   sync.Once
	mem    *os.File // if isBound, after once
	memErr error
}

func (r *processReach) open(pid, uid int) {
	r.pid, r.uid = pid, uid
	r.pidfd, r.isBound = -1, mayTraceAll()
	if pid <= 0 {
		return
	}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		r.pidfd = fd
	}
}

// mayTraceAll reports whether the daemon has CAP_SYS_PTRACE, or may have it.
func mayTraceAll() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return true // then the kernel's check is not relied on
	}
	return sets[0].Permitted&(1<<unix.CAP_SYS_PTRACE) != 0
}

// useKernelChecks has the memory copied by number, and by threads without CAP_SYS_PTRACE, if the kernel permits that.
func (r *processReach) useKernelChecks() {
	if !r.isBound || r.pidfd < 0 {
		return
	}
	var v vectors
	v.add(make([]byte, 1), 0)
	r.lowers = true
	_, err := r.transfer(&v, false)
	r.lowers = errors.Is(err, unix.EFAULT) // nothing is at address 0
	r.isBound = !r.lowers
}

func (r *processReach) close() {
	if r.pidfd >= 0 {
		unix.Close(r.pidfd)
		r.pidfd = -1
	}
	if r.mem != nil {
		r.mem.Close()
	}
}

// exited reports whether the process has exited, or was never found.
func (r *processReach) exited() bool {
	if r.pidfd < 0 {
		return true
	}
	err := unix.PidfdSendSignal(r.pidfd, 0, nil, 0)
	return err != nil && !errors.Is(err, unix.EPERM) // EPERM: a process of another user
}

// hasExited reports whether the process is known to have exited, even if its parent has not waited for it.
func (r *processReach) hasExited() bool {
	if r.pidfd < 0 {
		return false
	}
	p := []unix.PollFd{{Fd: int32(r.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return n > 0 && err == nil
}

// bind opens the memory of the process. It is done at the first access, when the client has permitted it.
func (r *processReach) bind() (*os.File, error) {
	r.once.Do(func() { r.mem, r.memErr = r.openMemory() })
	return r.mem, r.memErr
}

func (r *processReach) openMemory() (*os.File, error) {
	path := "/proc/" + strconv.Itoa(r.pid) + "/mem"
	var f *os.File
	var err error
	Traced(func() { f, err = os.OpenFile(path, os.O_RDWR, 0) })
	if err != nil {
		return nil, err
	}
	// The kernel shows root as the owner where a process may not be traced by its user. If the process executes another
	// program between the two calls, the address space that was opened no longer exists.
	var st unix.Stat_t
	err = unix.Stat(path, &st)
	switch {
	case err != nil:
	case int(st.Uid) != r.uid:
		err = errOtherUser
	case r.exited():
		err = ci.InvalidState
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

var _ reach = (*processReach)(nil)

// abort does nothing: the system call ends when the pages come, or the process exits.
func (*processReach) abort() error { return errStuck }

func (r *processReach) read(b []byte, from place) (int, error) {
	if r.isBound {
		f, err := r.bind()
		if err != nil {
			return 0, err
		}
		n, err := f.ReadAt(b, int64(from.addr))
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return n, err
	}
	var v vectors
	v.add(b, from.addr)
	return r.transfer(&v, false)
}

func (r *processReach) write(b []byte, to place) (int, error) {
	if r.isBound {
		f, err := r.bind()
		if err != nil {
			return 0, err
		}
		return f.WriteAt(b, int64(to.addr))
	}
	var v vectors
	v.add(b, to.addr)
	return r.transfer(&v, true)
}

// maxVectors is the number of ranges that one system call copies. The kernel permits 1024 (IOV_MAX).
const maxVectors = 64

// vectors are the ranges of one system call, on both sides.
type vectors struct {
	local   [maxVectors]unix.Iovec
	remote  [maxVectors]unix.RemoteIovec
	n, far  int // of local and of remote
	numByte int
}

// add adds a range of bytes, at least one. It joins adjacent ranges of the process, each of which costs the kernel a
// walk of the page table. Bytes are copied in the order of the local ranges.
func (v *vectors) add(b []byte, addr uint64) {
	v.local[v.n].Base = &b[0]
	v.local[v.n].SetLen(len(b))
	v.n++
	v.numByte += len(b)
	if v.far > 0 {
		if last := &v.remote[v.far-1]; last.Base+uintptr(last.Len) == uintptr(addr) {
			last.Len += len(b)
			return
		}
	}
	v.remote[v.far] = unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
	v.far++
}

// transfer copies by number, and returns how many bytes it has copied.
func (r *processReach) transfer(v *vectors, isWrite bool) (n int, err error) {
	if r.exited() {
		return 0, ci.InvalidState
	}
	if r.lowers {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if _, err := setTrace(false); err != nil {
			return 0, err
		}
	}
	short := io.ErrUnexpectedEOF
	if isWrite {
		short = io.ErrShortWrite
		n, err = unix.ProcessVMWritev(r.pid, v.local[:v.n], v.remote[:v.far], 0)
	} else {
		n, err = unix.ProcessVMReadv(r.pid, v.local[:v.n], v.remote[:v.far], 0)
	}
	switch {
	case err != nil:
		return 0, err
	case n < v.numByte:
		return n, short
	}
	return n, nil
}

// copySpans copies spans of the process's memory, as ci.Copier does. /proc/PID/mem has no call for several.
func (r *processReach) copySpans(list []ci.Span, isWrite bool) (done int, err error) {
	if r.isBound {
		return copyEach(r, list, isWrite)
	}
	var v vectors
	for done < len(list) {
		v.n, v.far, v.numByte = 0, 0, 0
		for _, s := range list[done:min(done+maxVectors, len(list))] {
			v.add(s.Bytes, placeOf(&s).addr)
		}
		n, err := r.transfer(&v, isWrite)
		if err != nil {
			for ; n >= len(list[done].Bytes); done++ {
				n -= len(list[done].Bytes)
			}
			return done, err
		}
		done += v.n
	}
	return done, nil
}

// check validates that a range is mapped with the rights needed. It reports whether a part of it is a file.
func (r *processReach) check(addr, length uint64, write bool) (isFile bool, err error) {
	if r.exited() {
		return false, fmt.Errorf("process %d: %w", r.pid, errNoProcess)
	}
	Traced(func() { isFile, err = mapped(r.pid, addr, length, write) })
	if err == nil && !r.isBound {
		err = r.checkOwner()
	}
	return isFile, err
}

// checkOwner validates that the process belongs to the user that connected. The number of a client that exited before
// its session was opened can be that of another process since, and the kernel compares with the daemon's user only.
func (r *processReach) checkOwner() error {
	var st unix.Stat_t
	err := unix.Stat("/proc/"+strconv.Itoa(r.pid), &st)
	switch {
	case err != nil:
		return err
	case int(st.Uid) != r.uid:
		return errOtherUser
	case r.exited(): // then the number may be that of a third process
		return fmt.Errorf("process %d: %w", r.pid, errNoProcess)
	}
	return nil
}

// explainCopy returns err, with what to do if the system does not permit access to the memory of the process.
func explainCopy(err error) error {
	if !errors.Is(err, fs.ErrPermission) { // EPERM and EACCES
		return err
	}
	return fmt.Errorf("the system does not let the daemon, process %d, reach it: %w (the process protects its memory, "+
		"or see kernel.yama.ptrace_scope; memory of ual.NewMemory is shared and needs no such right)", os.Getpid(), err)
}

// maxMaps bounds the text of /proc/PID/maps that is read: the kernel's default limit of mappings, 100 bytes each.
const maxMaps = 65530 * 100

// mapped validates that every page of a range is mapped with the rights needed. It reports whether a part is a file.
func mapped(pid int, addr, length uint64, write bool) (isFile bool, err error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return false, err
	}
	defer f.Close()
	need := addr
	for s := bufio.NewScanner(io.LimitReader(f, maxMaps)); s.Scan(); {
		from, to, rights, err := parseMapping(s.Text())
		switch {
		case err != nil:
			return false, err
		case to <= need:
			continue
		case from > need:
			return false, fmt.Errorf("address %x is not mapped", need)
		case rights[0] != 'r' || write && rights[1] != 'w':
			return false, fmt.Errorf("address %x is mapped %s, which does not permit the access", need, rights)
		}
		isFile = isFile || isMappedFile(s.Text())
		if to-addr >= length {
			return isFile, nil
		}
		need = to
	}
	return false, fmt.Errorf("address %x is not mapped", need)
}

// isMappedFile reports whether a line of /proc/PID/maps is that of a file, which is not memory in a file's form.
func isMappedFile(line string) bool {
	fields := strings.Fields(line) // span, rights, offset, device, inode, path
	if len(fields) < 6 || fields[4] == "0" {
		return false
	}
	for _, memory := range []string{"/memfd:", "/dev/shm/", "/dev/zero", "/SYSV", "/anon_hugepage"} {
		if strings.HasPrefix(fields[5], memory) {
			return false
		}
	}
	return true
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
