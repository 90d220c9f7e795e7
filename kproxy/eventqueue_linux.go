package kproxy

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"ciddk/kproxy/schema"
)

// open creates the socket pair of a queue and returns the client's end.
func (q *eventQueue) open() (theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	q.file, theirs = os.NewFile(uintptr(fds[0]), "events"), os.NewFile(uintptr(fds[1]), "events")
	if q.raw, err = q.file.SyscallConn(); err != nil {
		q.file.Close()
		theirs.Close()
		return nil, err
	}
	return theirs, nil
}

// sendEvent writes an event without blocking. It reports false if the socket has no room. An event for a client that
// has closed its end counts as written.
func sendEvent(fd uintptr, e *schema.Event) bool {
	var b [schema.EventSize]byte
	for {
		err := unix.Send(int(fd), e.Append(b[:0]), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.EAGAIN)
		}
	}
}
