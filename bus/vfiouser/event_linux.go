package vfiouser

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// one is what an eventfd is written.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// eventFD raises an interrupt of the other side.
type eventFD struct {
	f    *os.File
	raw  syscall.RawConn
	ring func(fd uintptr)
}

// newEventFD returns the eventfd of a descriptor, and owns it. The descriptor becomes non-blocking, so that another
// kind of file cannot block the device.
func newEventFD(f *os.File) (*eventFD, error) {
	e := &eventFD{f: f, ring: func(fd uintptr) {
		_, _ = unix.Write(int(fd), one) // if it is full, an interrupt is pending
	}}
	var err error
	if e.raw, err = f.SyscallConn(); err != nil {
		return nil, err
	}
	if e := e.raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), true) }); e != nil {
		return nil, e
	}
	return e, err
}

// signal raises the interrupt. It may be called after close, without effect.
func (e *eventFD) signal() { _ = e.raw.Control(e.ring) }

func (e *eventFD) close() {
	if e != nil {
		e.f.Close()
	}
}
