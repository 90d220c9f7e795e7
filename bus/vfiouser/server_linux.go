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

	"golang.org/x/sys/unix"

	"ciddk/bus"
)

// Listen listens on a Unix socket. A socket file that nobody listens on any more is replaced.
func Listen(path string) (*net.UnixListener, error) {
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	if c, err := net.DialUnix("unix", nil, addr); err == nil {
		c.Close()
		return nil, fmt.Errorf("vfiouser: another process listens on %s", path)
	} else if i, e := os.Lstat(path); e == nil && i.Mode()&os.ModeSocket != 0 && errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return net.ListenUnix("unix", addr)
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
		err = serveConn(ctx, uc, d)
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

// serveConn serves one driver until it disconnects, breaks the protocol, or ctx ends.
func serveConn(ctx context.Context, uc *net.UnixConn, d bus.Device) error {
	s := &session{c: &conn{c: uc}, dev: d, bars: d.BARs(), memory: bus.NewMap()}
	s.vectors.Store(new([]*eventFD))
	var once sync.Once
	closeConn := func() { once.Do(func() { uc.Close() }) }
	stop := context.AfterFunc(ctx, closeConn)
	defer func() {
		stop()
		closeConn()
		d.Reset()
		d.Config().Reset()
		d.Detach()
		s.unmap(s.memory.Clear())
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
			return err
		}
		if m.isReply() {
			m.closeFiles()
			return errors.New("vfiouser: a reply without a request")
		}
		reply, errno := s.execute(&m)
		m.closeFiles()
		if err := s.reply(&m.header, reply, errno); err != nil {
			return err
		}
		if !s.hello {
			return errors.New("vfiouser: the versions do not match")
		}
	}
}

// reply sends a reply, unless the request wants none. b has room for a header; nil is an empty reply.
func (s *session) reply(h *header, b []byte, errno unix.Errno) error {
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
	return s.c.send(r, b)
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

func (s *session) version(b []byte) ([]byte, unix.Errno) {
	v, err := parseVersion(b)
	if err != nil || v.Major != 0 || s.hello {
		return nil, unix.EINVAL
	}
	s.hello = true
	mine := version{Capabilities: capabilities{MaxFiles: maxFiles, MaxData: maxData}}
	return mine.append(start(256)), 0
}

// dmaMap maps memory of the driver's side. Without a descriptor, the range has no memory that the device can reach.
func (s *session) dmaMap(m *message) ([]byte, unix.Errno) {
	r, ok := parseDMAMap(m.body)
	page := uint64(os.Getpagesize())
	if !ok || r.Size == 0 || r.IOVA%page != 0 || r.Size%page != 0 || r.Offset%page != 0 || len(m.files) > 1 ||
		r.Size > 1<<46 || r.Flags&(dmaRead|dmaWrite) == 0 {
		return nil, unix.EINVAL
	}
	var b []byte
	if len(m.files) == 1 {
		var err error
		if b, err = mapFile(m.files[0], r.Offset, r.Size, r.Flags&dmaWrite != 0); err != nil {
			return nil, errnoOf(err)
		}
	}
	if err := s.memory.Add(r.IOVA, r.Size, b, r.Flags&dmaWrite != 0); err != nil {
		s.unmap([][]byte{b})
		return nil, errnoOf(err)
	}
	return nil, 0
}

// mapFile maps n bytes of a file.
func mapFile(f *os.File, off, n uint64, writable bool) (b []byte, err error) {
	i, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := uint64(i.Size()); off > size || n > size-off {
		return nil, unix.EINVAL // an access beyond the end is a fault
	}
	rights := unix.PROT_READ
	if writable {
		rights |= unix.PROT_WRITE
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		b, err = unix.Mmap(int(fd), int64(off), int(n), rights, unix.MAP_SHARED)
	}); e != nil {
		return nil, e
	}
	return b, err
}

// unmap releases memory that the device no longer uses.
func (s *session) unmap(list [][]byte) {
	for _, b := range list {
		if b != nil {
			_ = unix.Munmap(b) // mapped by mapFile, and intact
		}
	}
}

func (s *session) dmaUnmap(b []byte) ([]byte, unix.Errno) {
	r, ok := parseDMAUnmap(b)
	switch {
	case !ok || r.Flags&^dmaUnmapAll != 0:
		return nil, unix.EINVAL
	case r.Flags == dmaUnmapAll:
		s.unmap(s.memory.Clear())
	default:
		list, err := s.memory.Remove(r.IOVA, r.Size)
		if err != nil {
			return nil, errnoOf(err)
		}
		s.unmap(list)
	}
	return r.append(start(dmaUnmapSize)), 0
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

func (s *session) irqInfo(b []byte) ([]byte, unix.Errno) {
	i, ok := index(b, irqInfoSize)
	if !ok || i >= numIRQs {
		return nil, unix.EINVAL
	}
	return words(start(irqInfoSize), irqInfoSize, irqEventfd|irqNoResize, i, uint32(s.numIRQs(i))), 0
}

// numIRQs returns the number of interrupts of an index. An index for errors exists so that drivers find it; the device
// raises none.
func (s *session) numIRQs(i uint32) int {
	switch i {
	case irqMSIX:
		return s.dev.NumVectors()
	case irqError:
		return 1
	}
	return 0
}

// setIRQs enables, disables and triggers interrupts. A driver enables MSI-X in steps: with a descriptor for each
// vector, or with fewer, of which the missing ones are disabled.
func (s *session) setIRQs(m *message) unix.Errno {
	r, data, ok := parseSetIRQs(m.body)
	if !ok || r.Index >= numIRQs {
		return unix.EINVAL
	}
	all := uint32(s.numIRQs(r.Index))
	kind := r.Flags & irqDataMask
	switch {
	case r.Count == 0 && r.Start == 0 && kind == irqDataNone && r.Flags&irqTrigger != 0:
		s.setOther(r.Index, nil)
		if r.Index == irqMSIX {
			s.setVectors(nil)
		}
		return 0
	case r.Start > all || r.Count > all-r.Start || r.Count == 0:
		return unix.EINVAL
	case r.Flags&irqTrigger == 0:
		return unix.ENOTSUP // interrupts of the device are not masked here
	case kind == irqDataEvent:
		return s.assign(&r, m)
	case r.Index != irqMSIX:
		return 0
	case kind == irqDataNone:
		for i := range r.Count {
			s.Interrupt(int(r.Start + i))
		}
		return 0
	case kind == irqDataBool && len(data) >= int(r.Count):
		for i := range r.Count {
			if data[i] != 0 {
				s.Interrupt(int(r.Start + i))
			}
		}
		return 0
	}
	return unix.EINVAL
}

// assign assigns eventfds to interrupts.
func (s *session) assign(r *setIRQs, m *message) unix.Errno {
	if len(m.files) > int(r.Count) {
		return unix.EINVAL
	}
	list := make([]*eventFD, r.Count)
	for i, f := range m.files {
		e, err := newEventFD(f)
		if err != nil {
			return errnoOf(err) // the caller closes the files
		}
		list[i] = e
	}
	m.files = nil // they are the eventfds'
	if r.Index != irqMSIX {
		s.setOther(r.Index, list[0])
		return 0
	}
	now := *s.vectors.Load()
	next := make([]*eventFD, max(len(now), int(r.Start+r.Count)))
	copy(next, now)
	copy(next[r.Start:], list)
	s.vectors.Store(&next)
	for i := r.Start; i < r.Start+r.Count && int(i) < len(now); i++ {
		now[i].close()
	}
	return 0
}

func (s *session) setOther(i uint32, e *eventFD) {
	s.other[i].close()
	s.other[i] = e
}

// setVectors replaces all vectors.
func (s *session) setVectors(list []*eventFD) {
	for _, e := range *s.vectors.Swap(&list) {
		e.close()
	}
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
		s.dev.Config().Write(off, p)
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
