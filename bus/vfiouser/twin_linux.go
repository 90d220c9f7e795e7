package vfiouser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/bus"
)

// twin is the server's end of the twin socket: it requests, and the client answers. A socket of their own lets the
// device access memory while the server executes a request of the client.
type twin struct {
	c       *conn
	peer    *os.File // the client's end, until it has been sent
	maxData int

	mu  sync.Mutex // of one request at a time
	id  uint16
	buf []byte
	err error // why there are no requests any more

	atomics sync.Mutex // of operations on words
}

// newTwin returns a pair of sockets for transfers of up to maxData bytes.
func newTwin(maxData int) (*twin, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	peer := os.NewFile(uintptr(fds[1]), "twin")
	c, err := unixConn(os.NewFile(uintptr(fds[0]), "twin"))
	if err != nil {
		return nil, errors.Join(err, peer.Close())
	}
	return &twin{c: &conn{c: c}, peer: peer, maxData: maxData, buf: make([]byte, maxMessage)}, nil
}

// unixConn returns the connection of a descriptor, which it closes.
func unixConn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("vfiouser: the twin socket is not a Unix socket"), c.Close())
	}
	return u, nil
}

// close ends the socket. Accesses in progress fail. It does nothing on a nil twin.
func (t *twin) close() {
	if t == nil {
		return
	}
	t.c.c.Close()
	if t.peer != nil {
		t.peer.Close()
		t.peer = nil
	}
}

// access reads p from memory of the client, or writes it, in pieces that a message holds. The pieces have timeout in
// all.
func (t *twin) access(command uint16, iova uint64, p []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := time.Now().Add(timeout)
	for len(p) > 0 {
		n := min(len(p), t.maxData)
		if err := t.transfer(command, iova, p[:n], limit); err != nil {
			return err
		}
		p, iova = p[n:], iova+uint64(n)
	}
	return nil
}

// errRefused is the error of an access that the client has refused.
var errRefused = errors.New("vfiouser: the driver's side refused an access to its memory")

// transfer sends one request and waits for its reply. An error other than errRefused ends the socket. mu is held.
func (t *twin) transfer(command uint16, iova uint64, p []byte, limit time.Time) error {
	if t.err != nil {
		return t.err
	}
	t.id++
	h := header{ID: t.id, Command: command}
	a := dmaAccess{iova, uint64(len(p))}
	b := a.append(start(dmaAccessSize + len(p)))
	want := dmaAccessSize
	if command == cmdDMAWrite {
		b = append(b, p...)
	} else {
		want += len(p)
	}
	err := t.c.sendBefore(limit, h, b)
	var m message
	if err == nil {
		err = t.c.c.SetReadDeadline(limit)
	}
	if err == nil {
		m, err = t.c.receive(t.buf)
		m.closeFiles()
	}
	switch {
	case err != nil:
	case !m.isReply() || m.ID != h.ID || m.Command != command:
		err = fmt.Errorf("vfiouser: message %d of command %d for request %d", m.ID, m.Command, h.ID)
	case m.Flags&flagError != 0:
		return errRefused
	case len(m.body) != want:
		err = errShort
	default:
		if command == cmdDMARead {
			copy(p, m.body[dmaAccessSize:])
		}
		return nil
	}
	t.err = err
	t.c.c.Close()
	return err
}

// farMemory is memory without a descriptor from an address on, which the device reaches by messages.
type farMemory struct {
	t    *twin
	iova uint64
}

var _ bus.Remote = (*farMemory)(nil)

// ReadAt implements bus.Remote.
func (f *farMemory) ReadAt(b []byte, off int64) (int, error) {
	if err := f.t.access(cmdDMARead, f.iova+uint64(off), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// WriteAt implements bus.Remote.
func (f *farMemory) WriteAt(b []byte, off int64) (int, error) {
	if err := f.t.access(cmdDMAWrite, f.iova+uint64(off), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CompareSwap implements bus.Remote. The protocol has no atomic operations, so that they are atomic to those of the
// device only.
func (f *farMemory) CompareSwap(off, compare, swap uint64) (uint64, error) {
	return f.update(off, func(old uint64) (uint64, bool) { return swap, old == compare })
}

// FetchAdd implements bus.Remote. See CompareSwap.
func (f *farMemory) FetchAdd(off, n uint64) (uint64, error) {
	return f.update(off, func(old uint64) (uint64, bool) { return old + n, true })
}

// update replaces a word by what next returns, if it reports true.
func (f *farMemory) update(off uint64, next func(old uint64) (uint64, bool)) (old uint64, err error) {
	f.t.atomics.Lock()
	defer f.t.atomics.Unlock()
	var b [8]byte
	if err := f.t.access(cmdDMARead, f.iova+off, b[:]); err != nil {
		return 0, err
	}
	old = binary.NativeEndian.Uint64(b[:])
	v, change := next(old)
	if !change {
		return old, nil
	}
	binary.NativeEndian.PutUint64(b[:], v)
	return old, f.t.access(cmdDMAWrite, f.iova+off, b[:])
}
