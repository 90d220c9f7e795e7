package kproxy

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"ciddk/internal/kproxy/schema"
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

// keep holds the client's end, which blocks its readers from now on.
func (q *eventQueue) keep(theirs *os.File) error {
	if err := control(theirs, func(fd int) error { return unix.SetNonblock(fd, false) }); err != nil {
		return err
	}
	return q.hold(theirs)
}

// hold holds a duplicate of the client's end, unless the queue has one.
func (q *eventQueue) hold(theirs *os.File) error {
	var dup int
	err := control(theirs, func(fd int) (err error) {
		dup, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(dup), "events")
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.theirs != nil { // closed: the session has been closed meanwhile
		f.Close()
		return nil
	}
	q.theirs = f
	return nil
}

// isAbandoned reports whether the client has closed its end. The queue has no duplicate of it afterwards, which would
// keep it open.
func (q *eventQueue) isAbandoned() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.theirs != nil {
		q.theirs.Close()
		q.theirs = nil
	}
	isClosed := false
	_ = control(q.file, func(fd int) error { // the error means that the queue has been closed
		p := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(p, 0)
		isClosed = err == nil && n == 1 && p[0].Revents&unix.POLLHUP != 0
		return err
	})
	return isClosed
}

// takeBack removes the events with a token that the client has not read, and returns their number. mu is held.
func (q *eventQueue) takeBack(token uint64) (n uint64) {
	var others [][]byte
	_ = control(q.theirs, func(fd int) error { // the error means that the queue has been closed
		for {
			b := make([]byte, schema.EventSize)
			size, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || size < 8 {
				return err
			}
			if hostOrder.Uint64(b) == token {
				n++
			} else {
				others = append(others, b[:size])
			}
		}
	})
	_ = q.raw.Control(func(fd uintptr) {
		for _, b := range others { // they had room before
			sendEvent(fd, b)
		}
	})
	return n
}

// sendEvent writes an event without blocking. It reports false if the socket has no room. An event for a client that
// has closed its end counts as written.
func sendEvent(fd uintptr, b []byte) bool {
	for {
		err := unix.Send(int(fd), b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.EAGAIN)
		}
	}
}
