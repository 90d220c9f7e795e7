//go:build amd64 || arm64

package seccomp

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const atCWD = uint64(1<<64 + unix.AT_FDCWD)

// systemCall is a system call.
type systemCall struct {
	nr   uint32
	args [6]uint64
}

// int returns an argument that is an int of the C library.
func (c *systemCall) int(n int) int { return int(int32(c.args[n])) }

// inDirectory returns a call that has a path as its first argument as one that has a directory first, as others do.
func inDirectory(c systemCall) systemCall {
	switch c.nr {
	case unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_STATFS:
		return systemCall{c.nr, [6]uint64{atCWD, c.args[0], c.args[1]}}
	}
	return c
}

// supervisor executes the calls of programs on files of the tree and on device files.
type supervisor struct {
	listener int
	socket   string // of the daemon
	root     string // directory with the files of the tree
	preload  string // path of a library that dynamic programs preload; "": none
	numbers  span
	kept     *kept // nil if descriptors of programs can be copied
	live     liveFiles

	waiting  atomic.Int64 // calls that wait for their descriptor
	numberMu sync.Mutex   // serializes the choice of numbers

	mu    sync.Mutex
	files map[inode]*device
	ports map[uint64]uint32 // of sockets of RDMA netlink, by inode
}

// task is a thread that waits for its call.
type task struct {
	*supervisor
	id  uint64 // of the notification
	tid int
	systemCall
}

// result is the end of a call.
type result struct {
	value    int64
	errno    syscall.Errno
	isSent   bool // it was sent with a descriptor
	proceeds bool // the kernel executes the call
}

var proceed = result{proceeds: true}

func failed(err error) result { return result{errno: errnoOf(err)} }

// run executes calls until no process has the filter.
func (s *supervisor) run() error {
	_ = setFlags(s.listener, syncWakeUp) // calls of pollers wait longer without it
	poll := []unix.PollFd{{Fd: int32(s.listener), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		switch {
		case poll[0].Revents&unix.POLLIN != 0:
		case poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0:
			return nil
		default:
			continue
		}
		var n notification
		if receive(s.listener, &n) != nil { // the program was interrupted
			continue
		}
		t := &task{s, n.id, int(n.tid), inDirectory(modern(systemCall{uint32(n.nr), n.args}))}
		if t.ring() {
			continue
		}
		go t.finish()
	}
}

// finish executes a call and responds.
func (t *task) finish() { t.respond(t.execute()) }

// respond completes a call.
func (t *task) respond(r result) {
	if r.isSent {
		return
	}
	out := response{id: t.id, value: r.value, errno: -int32(r.errno)}
	if r.errno != 0 {
		out.value = 0
	}
	if r.proceeds {
		out = response{id: t.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	}
	_ = respond(t.listener, &out) // it fails if the program was killed
}

// isValid reports whether the call still waits, so that tid is the number of its thread.
func (t *task) isValid() bool { return isValid(t.listener, t.id) }

// execute executes a call.
func (t *task) execute() result {
	const statFlags, statxFlags = 3, 2
	switch t.nr {
	case unix.SYS_OPENAT:
		return t.openAt(t.int(2))
	case unix.SYS_OPENAT2:
		return t.openAt2()
	case unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2:
		return t.access()
	case unix.SYS_READLINKAT:
		return t.readlink()
	case statCall:
		if t.isEmptyPath(statFlags) {
			return t.statDescriptor(t.args[2], 0)
		}
		return t.statPath(t.args[2], t.int(statFlags))
	case unix.SYS_STATX:
		if t.isEmptyPath(statxFlags) {
			return t.statDescriptor(t.args[4], t.int(3))
		}
		return t.statxPath()
	case unix.SYS_FSTAT:
		return t.statDescriptor(t.args[1], 0)
	case unix.SYS_GETXATTR, unix.SYS_LGETXATTR:
		return t.attribute(false)
	case unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR:
		return t.attribute(true)
	case unix.SYS_GETCWD:
		return t.workingDirectory()
	case unix.SYS_STATFS:
		return t.fileSystem(t.args[2], t.name())
	case unix.SYS_FSTATFS:
		file, _ := os.Readlink(t.procPath(t.int(0))) // none is not in the tree
		if name, ok := t.below(file); ok {
			return t.fileSystem(t.args[1], name)
		}
		return proceed
	case unix.SYS_SOCKET:
		return t.openNetlink()
	}
	return t.onDevice()
}

// isEmptyPath reports whether a call concerns a descriptor of the range.
func (t *task) isEmptyPath(flags int) bool {
	return t.int(flags)&unix.AT_EMPTY_PATH != 0 && t.numbers.has(t.int(0))
}
