package vfiouser

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/clock"
	"ciddk/internal/passedfd"
	"ciddk/internal/private"
)

// Listen listens on a Unix socket. A socket file that nobody listens on any more is replaced.
func Listen(path string) (*net.UnixListener, error) {
	if err := private.RemoveUnserved("unix", path); err != nil {
		return nil, fmt.Errorf("vfiouser: %w", err)
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// Serve serves a device on a listener until ctx ends, one driver after the other. A driver that disconnects leaves a
// device that has been reset. Serve closes the listener. It returns nil after the end of ctx.
func Serve(ctx context.Context, l *net.UnixListener, d bus.Device, c Config) error {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	discard := passedfd.NewDiscarder(clock.Real())
	for {
		uc, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				uc.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("vfiouser: %w", err)
		}
		err = serveConn(ctx, uc, d, discard)
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			c.Logger.Warn("vfiouser: the driver's connection ended", "error", err)
		}
	}
}

// session is a driver's connection. It is the device's bus.Host.
type session struct {
	c      *conn
	dev    bus.Device
	bars   [bus.NumBARs]bus.BAR
	memory *bus.Map

	// vectors are the eventfds of MSI-X; entries may be nil.
	vectors atomic.Pointer[[]*eventFD]
	other   [numIRQs]*eventFD // of other indexes, kept until they are replaced
	hello   bool

	// twin is the socket for accesses to memory without a descriptor, or nil. mu guards changes.
	twin *twin

	mu        sync.Mutex
	isEnding  bool
	cause     error         // why end was called first
	ended     chan struct{} // closed when nothing uses the session any more
	releasing sync.WaitGroup
}

var _ bus.Host = (*session)(nil)

// Memory returns the memory that the device can reach.
func (s *session) Memory() *bus.Map { return s.memory }

// Interrupt raises an interrupt vector. Without an enabled vector it is lost.
func (s *session) Interrupt(vector int) {
	v := *s.vectors.Load()
	if vector >= 0 && vector < len(v) && v[vector] != nil {
		v[vector].signal()
	}
}

// end ends the session from any goroutine, without waiting: the sockets close, accesses in progress fail, and
// interrupts that block are released. cause is what serveConn returns, or nil.
func (s *session) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEnding {
		return
	}
	s.isEnding, s.cause = true, cause
	s.c.c.Close()
	if s.twin != nil {
		s.twin.c.c.Close()
	}
	s.releasing.Go(func() {
		for {
			for _, e := range *s.vectors.Load() {
				e.release()
			}
			select {
			case <-s.ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
}

// reason returns why the session ends: the cause of end, or the error of a socket.
func (s *session) reason(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	return err
}

// serveConn serves one driver until it disconnects, breaks the protocol, or ctx ends.
func serveConn(ctx context.Context, uc *net.UnixConn, d bus.Device, discard *passedfd.Discarder) error {
	s := &session{c: &conn{c: uc, discard: discard}, dev: d, bars: d.BARs(), memory: bus.NewMap(),
		ended: make(chan struct{})}
	s.vectors.Store(new([]*eventFD))
	stop := context.AfterFunc(ctx, func() { s.end(nil) })
	defer func() {
		stop()
		s.end(nil)
		s.twin.close()
		d.Reset()
		d.Config().Reset()
		d.Detach()
		s.unmap(s.memory.Clear())
		close(s.ended)
		s.releasing.Wait()
		s.setVectors(nil)
		for _, e := range s.other {
			e.close()
		}
	}()
	d.Attach(s)
	buf := make([]byte, maxMessage)
	for {
		m, err := s.c.receive(buf)
		if err != nil {
			return s.reason(err)
		}
		if m.isReply() {
			m.closeFiles()
			return errors.New("vfiouser: a reply without a request")
		}
		reply, errno := s.execute(&m)
		m.closeFiles()
		if err := s.reply(&m.header, reply, errno, s.takeFiles()...); err != nil {
			return s.reason(err)
		}
		if !s.hello {
			return errors.New("vfiouser: the versions do not match")
		}
	}
}

// reply sends a reply, unless the request wants none. b has room for a header; nil is an empty reply.
func (s *session) reply(h *header, b []byte, errno unix.Errno, files ...*os.File) error {
	defer closeAll(files)
	if h.Flags&flagNoReply != 0 {
		return nil
	}
	r := header{ID: h.ID, Command: h.Command, Flags: flagReply}
	if errno != 0 {
		r.Flags |= flagError
		r.Errno = uint32(errno)
		b = nil
	}
	if b == nil {
		b = start(0)
	}
	return s.c.send(r, b, files...)
}

// execute executes a request, and returns its reply or an error number.
func (s *session) execute(m *message) ([]byte, unix.Errno) {
	if !s.hello && m.Command != cmdVersion {
		return nil, unix.EINVAL
	}
	switch m.Command {
	case cmdVersion:
		return s.version(m.body)
	case cmdDMAMap:
		return s.dmaMap(m)
	case cmdDMAUnmap:
		return s.dmaUnmap(m.body)
	case cmdGetInfo:
		return words(start(infoSize), infoSize, infoReset|infoPCI, numRegions, numIRQs), 0
	case cmdGetRegionInfo:
		return s.regionInfo(m.body)
	case cmdGetIRQInfo:
		return s.irqInfo(m.body)
	case cmdSetIRQs:
		return nil, s.setIRQs(m)
	case cmdRegionRead:
		return s.read(m.body)
	case cmdRegionWrite:
		return s.write(m.body)
	case cmdReset:
		s.dev.Reset()
		s.dev.Config().Reset()
		return nil, 0
	}
	return nil, unix.ENOTSUP
}

// takeFiles returns the descriptors for the reply of the request that was executed: the twin's, once.
func (s *session) takeFiles() []*os.File {
	if s.twin == nil || s.twin.peer == nil {
		return nil
	}
	f := s.twin.peer
	s.twin.peer = nil
	return []*os.File{f}
}

func (s *session) version(b []byte) ([]byte, unix.Errno) {
	v, err := parseVersion(b)
	if err != nil || v.Major != 0 || s.hello {
		return nil, unix.EINVAL
	}
	s.hello = true
	mine := version{Capabilities: capabilities{MaxFiles: maxFiles, MaxData: maxData}}
	if v.Capabilities.hasTwin() {
		if v.Capabilities.MaxData < minData {
			return nil, unix.EINVAL
		}
		t, err := newTwin(min(maxData, v.Capabilities.MaxData))
		if err != nil {
			return nil, errnoOf(err)
		}
		s.mu.Lock()
		s.twin = t
		if s.isEnding {
			t.c.c.Close()
		}
		s.mu.Unlock()
		mine.Capabilities.Twin = &twinSocket{Supported: true}
	}
	return mine.append(start(256)), 0
}

// errnoOf returns the error number for an error.
func errnoOf(err error) unix.Errno {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	switch {
	case errors.Is(err, bus.ErrOverlap):
		return unix.EEXIST
	case errors.Is(err, bus.ErrNotMapped):
		return unix.ENOENT
	case errors.Is(err, bus.ErrTooMany):
		return unix.ENOSPC
	}
	return unix.EINVAL
}

// index returns the number of the region or interrupt that a request of size bytes is about: the word after argsz and
// flags.
func index(b []byte, size int) (uint32, bool) {
	if len(b) < size {
		return 0, false
	}
	return binary.LittleEndian.Uint32(b[8:]), true
}

func (s *session) regionInfo(b []byte) ([]byte, unix.Errno) {
	i, ok := index(b, regionInfoSize)
	if !ok || i >= numRegions {
		return nil, unix.EINVAL
	}
	size := s.regionSize(i)
	flags := uint32(0)
	if size > 0 {
		flags = regionRead | regionWrite
	}
	return longs(words(start(regionInfoSize), regionInfoSize, flags, i, 0), size, 0), 0
}

func (s *session) regionSize(i uint32) uint64 {
	switch {
	case i < bus.NumBARs:
		return s.bars[i].Size
	case i == regionConfig:
		return bus.ConfigSize
	}
	return 0
}

// read reads from a region.
func (s *session) read(b []byte) ([]byte, unix.Errno) {
	a, data, ok := parseAccess(b)
	if !ok || len(data) != 0 || !s.contains(&a) {
		return nil, unix.EINVAL
	}
	reply := a.append(start(accessSize + int(a.Count)))
	at := len(reply)
	reply = reply[:at+int(a.Count)]
	p, off := reply[at:], a.Offset
	if a.Region == regionConfig {
		s.dev.Config().Read(off, p)
		return reply, 0
	}
	for len(p) > 0 {
		n := bus.Piece(off, len(p))
		bus.PutNumber(p[:n], s.dev.ReadBAR(int(a.Region), off, n))
		p, off = p[n:], off+uint64(n)
	}
	return reply, 0
}

// write writes to a region.
func (s *session) write(b []byte) ([]byte, unix.Errno) {
	a, p, ok := parseAccess(b)
	if !ok || len(p) != int(a.Count) || !s.contains(&a) {
		return nil, unix.EINVAL
	}
	reply, off := a.append(start(accessSize)), a.Offset
	if a.Region == regionConfig {
		bus.WriteConfig(s.dev, off, p)
		return reply, 0
	}
	for len(p) > 0 {
		n := bus.Piece(off, len(p))
		s.dev.WriteBAR(int(a.Region), off, n, bus.Number(p[:n]))
		p, off = p[n:], off+uint64(n)
	}
	return reply, 0
}

// contains reports whether an access is within its region.
func (s *session) contains(a *access) bool {
	if a.Region >= numRegions || a.Count == 0 {
		return false
	}
	size := s.regionSize(a.Region)
	return a.Offset < size && uint64(a.Count) <= size-a.Offset
}
