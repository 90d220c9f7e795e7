//go:build amd64 || arm64

package seccomp

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/devices"
	"ciddk/internal/memfd"
	"ciddk/internal/rings"
)

// inode identifies a file.
type inode struct{ dev, ino uint64 }

// device is an open device file whose connection the supervisor has.
type device struct {
	conn         int
	major, minor uint32
	cloexec      uint32

	mu     sync.Mutex
	refs   int // of files that programs have, and of calls
	header *rings.Header
	memory []byte
	bells  map[uint32]uint32 // by handle of a QP
	table  []byte            // of bells, which the program has; nil: none

	process    *os.File   // pidfd of the process that opened the file
	pid        int        // its number
	registerMu sync.Mutex // held during commands that register memory
	copies     *copies    // nil: the daemon has not asked for copies. mu guards it
}

func (d *device) hold() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refs == 0 {
		return false
	}
	d.refs++
	return true
}

// release closes the connection when nobody uses it.
func (d *device) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refs--; d.refs > 0 {
		return
	}
	unix.Close(d.conn)
	if d.memory != nil {
		_ = unix.Munmap(d.memory) // it is a mapping
		d.memory, d.header = nil, nil
	}
	d.dropTable()
	d.process.Close()
}

// setMemory maps the memory that the program shares with the adapter.
func (d *device) setMemory(f *os.File) error {
	size, err := unix.Seek(numberOf(f), 0, unix.SEEK_END)
	if err != nil || size < rings.HeaderSize {
		return syscall.EIO
	}
	b, err := unix.Mmap(numberOf(f), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return syscall.ENOMEM
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory != nil {
		_ = unix.Munmap(b) // it is a mapping
		return syscall.EIO
	}
	d.memory, d.header = b, rings.OpenHeader(b)
	return nil
}

// descriptor is a program's descriptor of a device file, during a call.
type descriptor struct {
	number       int
	path         string // in /proc
	stat         unix.Stat_t
	major, minor uint32

	conn      int
	dev       *device // nil if conn is a copy of the program's descriptor
	isNetlink bool    // a socket of RDMA netlink, which is no device file
}

func (d *descriptor) release() {
	if d.dev != nil {
		d.dev.release()
		return
	}
	unix.Close(d.conn)
}

// descriptor returns a descriptor of a device file. It reports false for other descriptors.
func (t *task) descriptor(number int) (*descriptor, bool) {
	if !t.numbers.has(number) {
		return nil, false
	}
	d := &descriptor{number: number, path: t.procPath(number)}
	if unix.Stat(d.path, &d.stat) != nil || !t.isValid() {
		return nil, false
	}
	if d.stat.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return d, t.setSocket(d)
	}
	t.mu.Lock()
	d.dev = t.files[inode{d.stat.Dev, d.stat.Ino}]
	t.mu.Unlock()
	if d.dev == nil || !d.dev.hold() {
		return nil, false
	}
	d.conn, d.major, d.minor = d.dev.conn, d.dev.major, d.dev.minor
	return d, true
}

func (t *task) procPath(number int) string { return fmt.Sprintf("/proc/%d/fd/%d", t.tid, number) }

// socketName begins the names of sockets that are connections. The device file's path follows the second slash.
const socketName = "@ddkrun/"

var socketCount atomic.Uint64

// nameOf returns a name for the socket of a device file.
func nameOf(device string) string {
	return fmt.Sprintf("%s%d-%d%s", socketName, os.Getpid(), socketCount.Add(1), device)
}

// setSocket sets the fields of a descriptor that is a connection. It reports false if it is another socket.
func (t *task) setSocket(d *descriptor) bool {
	fd, err := t.copyDescriptor(d.number)
	if err != nil {
		return false
	}
	a, err := unix.Getsockname(fd)
	name := ""
	if u, ok := a.(*unix.SockaddrUnix); ok && err == nil {
		name = strings.TrimPrefix(u.Name, socketName)
	}
	_, device, ok := strings.Cut(name, "/")
	p, isPlace := redirect(t.root, "/"+device, true)
	if d.isNetlink = device == netlinkFile; d.isNetlink {
		d.conn = fd
		return true
	}
	if ok && isPlace {
		d.major, d.minor, ok = p.device()
	}
	if !ok || !isPlace {
		unix.Close(fd)
		return false
	}
	d.conn = fd
	return true
}

// process returns a pidfd of the process of the thread, in non-blocking mode.
func (t *task) process() (int, error) {
	fd, _, err := t.processNumber()
	return fd, err
}

// processNumber is process, with the process's number.
func (t *task) processNumber() (fd, pid int, err error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", t.tid))
	if err != nil {
		return -1, 0, syscall.ESRCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, ok := strings.CutPrefix(lines.Text(), "Tgid:")
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			break
		}
		fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
		if err != nil {
			return -1, 0, err
		}
		if !t.isValid() { // then the number may be that of another process
			unix.Close(fd)
			break
		}
		return fd, pid, nil
	}
	return -1, 0, syscall.ESRCH
}

// copyDescriptor returns a copy of a descriptor of the program.
func (t *task) copyDescriptor(number int) (int, error) {
	pidfd, err := t.process()
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if isForbidden(err) && t.kept != nil {
		return t.kept.copy(t.procPath(number))
	}
	return fd, err
}

// openDevice opens a device file.
func (t *task) openDevice(p place, flags int) result {
	name := ""
	isMapped := strings.HasPrefix(p.name, deviceDir+"/uverbs")
	if !isMapped {
		name = nameOf(p.name)
	}
	conn, o, err := t.connect(p.name, name)
	if err != nil {
		return failed(err)
	}
	cloexec := uint32(flags & unix.O_CLOEXEC)
	if !isMapped {
		defer unix.Close(conn)
		if err := unix.SetNonblock(conn, flags&unix.O_NONBLOCK != 0); err != nil {
			return failed(err)
		}
		return t.give(conn, cloexec)
	}
	pidfd, pid, err := t.processNumber()
	if err != nil {
		unix.Close(conn)
		return failed(err)
	}
	d := &device{conn: conn, major: o.Major, minor: o.Minor, cloexec: cloexec, refs: 1, bells: map[uint32]uint32{},
		process: os.NewFile(uintptr(pidfd), "process"), pid: pid}
	defer d.release()
	empty, err := memfd.Create("ddkrun", 0)
	if err != nil {
		return failed(err)
	}
	defer empty.Close()
	return t.lend(empty, d, func(fd int) result { return t.give(fd, cloexec) })
}

// connect opens a device file for the process of the call over a new connection.
func (t *task) connect(device, name string) (conn int, o *devices.Opened, err error) {
	pidfd, err := t.process()
	if err != nil {
		return -1, nil, err
	}
	process := os.NewFile(uintptr(pidfd), "process")
	defer process.Close()
	conn, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	if name != "" {
		err = unix.Bind(conn, &unix.SockaddrUnix{Name: name})
	}
	if err == nil && unix.Connect(conn, &unix.SockaddrUnix{Name: t.socket}) != nil {
		err = syscall.ENXIO
	}
	if err == nil {
		o, err = devices.Open(conn, device, process)
	}
	if err != nil {
		unix.Close(conn)
		return -1, nil, err
	}
	return conn, o, nil
}

// give installs a descriptor in the program at a free number of the range, which the call returns.
func (t *task) give(fd int, flags uint32) result {
	t.numberMu.Lock()
	defer t.numberMu.Unlock()
	for n := t.numbers.first; n < t.numbers.end; n++ {
		var st unix.Stat_t
		if err := unix.Lstat(t.procPath(n), &st); err == nil {
			continue
		} else if !errors.Is(err, unix.ENOENT) {
			return failed(err)
		}
		return t.giveAt(fd, n, flags)
	}
	return result{errno: syscall.EMFILE}
}

// giveAt installs a descriptor in the program at a number, which the call returns.
func (t *task) giveAt(fd, number int, flags uint32) result {
	if err := t.install(fd, number, flags, unix.SECCOMP_ADDFD_FLAG_SEND); err != nil {
		return failed(err)
	}
	return result{isSent: true}
}

// install installs a descriptor in the program at a number.
func (t *task) install(fd, number int, flags, how uint32) error {
	_, err := t.kept.during(fd, func() (int, error) {
		return add(t.listener, &addition{id: t.id, flags: unix.SECCOMP_ADDFD_FLAG_SETFD | how, source: uint32(fd),
			number: uint32(number), numberFlags: flags})
	})
	if errors.Is(err, unix.EBADF) { // the number is beyond the program's limit
		return syscall.EMFILE
	}
	return err
}

// lend calls install with a descriptor of memory. The device remains open until the program has closed all copies.
func (t *task) lend(memory *os.File, d *device, install func(fd int) result) result {
	path := fmt.Sprintf("/proc/self/fd/%d", numberOf(memory))
	lent, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return failed(err)
	}
	defer lent.Close()
	watch, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return failed(err)
	}
	var st unix.Stat_t
	err = unix.Fstat(numberOf(lent), &st)
	lock := &unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if err == nil {
		err = unix.FcntlFlock(uintptr(numberOf(lent)), unix.F_OFD_SETLK, lock)
	}
	if err != nil {
		watch.Close()
		return failed(err)
	}
	key := inode{st.Dev, st.Ino}
	d.hold()
	t.mu.Lock()
	t.files[key] = d
	t.mu.Unlock()
	go t.awaitClose(watch, key, d)
	return install(numberOf(lent))
}

// awaitClose releases a device when the file that a program has is closed, which releases its lock.
func (s *supervisor) awaitClose(watch *os.File, key inode, d *device) {
	for {
		err := unix.FcntlFlock(uintptr(numberOf(watch)), unix.F_OFD_SETLKW, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1})
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	s.mu.Lock()
	delete(s.files, key)
	s.mu.Unlock()
	watch.Close()
	d.release()
}

// numberOf returns the number of a descriptor, -1 if it is closed. It leaves the mode of the file alone, which Fd would
// change.
func numberOf(f *os.File) int {
	number := -1
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { number = int(fd) }) // it fails if the file is closed
	}
	return number
}
