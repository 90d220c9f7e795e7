package vfiouser

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// one is what an eventfd is written.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// eventFD raises an interrupt of the other side.
type eventFD struct {
	f     *os.File
	raw   syscall.RawConn
	ring  func(fd uintptr)
	users atomic.Int32 // calls of signal in progress
}

// newEventFD returns the eventfd of a descriptor, and owns it. The descriptor becomes non-blocking, so that a full
// counter does not block the device.
func newEventFD(f *os.File) (*eventFD, error) {
	e := &eventFD{f: f, ring: func(fd uintptr) {
		_, _ = unix.Write(int(fd), one) // if it is full, an interrupt is pending
	}}
	var err error
	if e.raw, err = f.SyscallConn(); err != nil {
		return nil, err
	}
	return e, e.setNonblock()
}

func (e *eventFD) setNonblock() (err error) {
	if e := e.raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), true) }); e != nil {
		return e
	}
	return err
}

// signal raises the interrupt. It may be called after close, without effect.
func (e *eventFD) signal() {
	e.users.Add(1)
	_ = e.raw.Control(e.ring)
	e.users.Add(-1)
}

// release lets the calls of signal in progress return. The other side can make the descriptor block, since the mode is
// that of both sides, and fill the counter: then it is emptied.
func (e *eventFD) release() {
	for e != nil && e.users.Load() != 0 {
		_ = e.setNonblock()
		_ = e.raw.Control(empty)
		<-time.After(time.Millisecond)
	}
}

// empty reads the counter of an eventfd. RWF_NOWAIT does not wait, whatever the mode of the descriptor is.
func empty(fd uintptr) {
	var b [8]byte
	if _, err := unix.Preadv2(int(fd), [][]byte{b[:]}, -1, unix.RWF_NOWAIT); errors.Is(err, unix.EOPNOTSUPP) {
		_, _ = unix.Read(int(fd), b[:]) // Linux before 5.8
	}
}

func (e *eventFD) close() {
	if e != nil {
		e.release()
		e.f.Close()
	}
}
