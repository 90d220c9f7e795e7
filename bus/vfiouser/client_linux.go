package vfiouser

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ciddk/bus"
	"ciddk/bus/internal/vectors"
	"ciddk/internal/memfd"
)

// Function is a function at the other end of a socket. It implements bus.Function.
type Function struct {
	path    string
	c       *conn
	id      bus.ID
	config  bus.Space
	bars    bus.Spaces
	vectors int
	gone    chan struct{}
	err     error // why it has gone, before gone is closed
	ended   chan struct{}

	// memory has what the device reaches by messages on twin, which is nil if the server has no such socket.
	memory    *bus.Map
	twin      *conn
	twinEnded chan struct{}

	call    sync.Mutex // one request with a reply at a time
	nextID  uint16
	replies chan message

	mu       sync.Mutex // of changes
	closed   bool
	enabled  *vectors.Set
	nextIOVA uint64
	mapped   map[uint64][]byte // mappings that this package made, by IOVA; nil for others
}

var _ bus.Function = (*Function)(nil)

// firstIOVA is the device's address of the first memory.
const firstIOVA = 1 << 32

// Dial connects to the server of a device. The context bounds the connecting.
func Dial(ctx context.Context, path string) (*Function, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	f := &Function{path: path, c: &conn{c: nc.(*net.UnixConn)}, gone: make(chan struct{}), ended: make(chan struct{}),
		replies: make(chan message), nextIOVA: firstIOVA, mapped: map[uint64][]byte{}, memory: bus.NewMap()}
	go f.receive()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	err = f.open()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("vfiouser: %s: %w", path, err), f.Close())
	}
	return f, nil
}

// open negotiates the version and reads what the function has.
func (f *Function) open() error {
	if err := f.negotiate(); err != nil {
		return err
	}
	for i := range uint32(bus.NumBARs) {
		b, err := f.request(cmdGetRegionInfo, longs(words(start(regionInfoSize), regionInfoSize, 0, i, 0), 0, 0))
		if err != nil {
			return err
		}
		if len(b) < regionInfoSize {
			return errShort
		}
		if size := binary.LittleEndian.Uint64(b[16:]); size > 0 {
			f.bars[i] = bus.NewSpace(size, region{f, i})
		}
	}
	b, err := f.request(cmdGetIRQInfo, words(start(irqInfoSize), irqInfoSize, 0, irqMSIX, 0))
	if err != nil {
		return err
	}
	if len(b) < irqInfoSize {
		return errShort
	}
	f.vectors = int(min(binary.LittleEndian.Uint32(b[12:]), 2048)) // of MSI-X (PCI local bus 3.0, 6.8.2.3)
	f.config = bus.NewSpace(bus.ConfigSize, region{f, regionConfig})
	f.id = bus.ID{Vendor: f.config.Read16(bus.ConfigVendorID), Device: f.config.Read16(bus.ConfigDeviceID)}
	return nil
}

// negotiate exchanges versions and capabilities.
func (f *Function) negotiate() error {
	mine := version{Capabilities: capabilities{MaxFiles: maxFiles, MaxData: maxData,
		Twin: &twinSocket{Supported: true}}}
	m, err := f.exchange(cmdVersion, mine.append(start(256)))
	if err != nil {
		return err
	}
	defer m.closeFiles()
	v, err := parseVersion(m.body)
	if err != nil {
		return err
	}
	if v.Major != 0 {
		return fmt.Errorf("the server has version %d of the protocol, want 0", v.Major)
	}
	if v.Capabilities.hasTwin() {
		return f.startTwin(&m, v.Capabilities.Twin.Index)
	}
	return nil
}

var errShort = errors.New("vfiouser: a reply is too short")

// receive receives until the connection ends.
func (f *Function) receive() {
	defer close(f.ended)
	buf := make([]byte, maxMessage)
	for {
		m, err := f.c.receive(buf)
		if err == nil && !m.isReply() {
			err = f.c.send(header{ID: m.ID, Command: m.Command, Flags: flagReply | flagError,
				Errno: uint32(unix.ENOTSUP)}, start(0))
			m.closeFiles()
			if err == nil {
				continue
			}
		}
		if err != nil {
			f.err = err
			close(f.gone)
			f.c.c.Close()
			return
		}
		m.body = append([]byte(nil), m.body...)
		select {
		case f.replies <- m:
		case <-time.After(timeout): // nobody waits: a reply without a request
			m.closeFiles()
			f.c.c.Close()
		}
	}
}

// request sends a request and returns the body of its reply. b has room for the header.
func (f *Function) request(command uint16, b []byte, files ...*os.File) ([]byte, error) {
	m, err := f.exchange(command, b, files...)
	m.closeFiles()
	return m.body, err
}

// exchange sends a request and returns its reply, whose files the caller closes. b has room for the header.
func (f *Function) exchange(command uint16, b []byte, files ...*os.File) (message, error) {
	f.call.Lock()
	defer f.call.Unlock()
	f.nextID++
	h := header{ID: f.nextID, Command: command}
	if err := f.c.send(h, b, files...); err != nil {
		return message{}, fmt.Errorf("%w: %w", bus.ErrGone, err)
	}
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case m := <-f.replies:
		switch {
		case m.ID != h.ID || m.Command != command:
			m.closeFiles()
			f.c.c.Close()
			return message{}, fmt.Errorf("vfiouser: a reply %d to command %d for request %d", m.ID, m.Command, h.ID)
		case m.Flags&flagError != 0:
			m.closeFiles()
			return message{}, fmt.Errorf("vfiouser: command %d: %w", command, unix.Errno(m.Errno))
		}
		return m, nil
	case <-f.gone:
		return message{}, fmt.Errorf("%w: %w", bus.ErrGone, f.err)
	case <-t.C:
		f.c.c.Close()
		return message{}, fmt.Errorf("vfiouser: no reply to command %d within %v", command, timeout)
	}
}

// region is a space's accesses.
type region struct {
	f *Function
	n uint32
}

func (r region) Load(off uint64, size int) (uint64, error) {
	a := access{off, r.n, uint32(size)}
	b, err := r.f.request(cmdRegionRead, a.append(start(accessSize)))
	if err != nil {
		return 0, err
	}
	if len(b) != accessSize+size {
		return 0, errShort
	}
	return bus.Number(b[accessSize:]), nil
}

// Store writes to a BAR without waiting, and to the configuration space with a reply. The socket keeps the order.
func (r region) Store(off uint64, size int, v uint64) error {
	a := access{off, r.n, uint32(size)}
	b := a.append(start(accessSize + 8))
	b = b[:len(b)+size]
	bus.PutNumber(b[len(b)-size:], v)
	if r.n == regionConfig {
		_, err := r.f.request(cmdRegionWrite, b)
		return err
	}
	return r.f.c.send(header{Command: cmdRegionWrite, Flags: flagNoReply}, b)
}

// ID returns vendor and device ID.
func (f *Function) ID() bus.ID { return f.id }

// Location returns the path of the socket.
func (f *Function) Location() string { return f.path }

// Config returns the configuration space.
func (f *Function) Config() bus.Space { return f.config }

// BAR returns a base address register.
func (f *Function) BAR(n int) (bus.Space, error) { return f.bars.BAR(n) }

// NumVectors returns the number of interrupt vectors.
func (f *Function) NumVectors() int { return f.vectors }

// Gone is closed when the connection has ended.
func (f *Function) Gone() <-chan struct{} { return f.gone }

// AllocDMA allocates memory that the device can reach: a memfd.
func (f *Function) AllocDMA(size int) (*bus.DMA, error) {
	size, err := bus.DMASize(size)
	if err != nil {
		return nil, err
	}
	file, err := memfd.Create("dma", size)
	if err != nil {
		return nil, err
	}
	b, err := mapFile(file, 0, uint64(size), true)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	d, err := f.share(bus.Memory{Bytes: b, File: file}, true)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(b), file.Close())
	}
	return d, nil
}

// MapDMA makes memory reachable for the device. Its process maps memory of a file. It reaches other memory by messages,
// if the server has a socket for them.
func (f *Function) MapDMA(m bus.Memory) (*bus.DMA, error) {
	page := os.Getpagesize()
	switch {
	case m.File == nil:
		return f.lend(m)
	case len(m.Bytes) == 0 || len(m.Bytes)%page != 0 || m.Offset < 0 || m.Offset%int64(page) != 0:
		return nil, fmt.Errorf("%w: %d bytes at offset %d are not whole pages", bus.ErrNotMappable, len(m.Bytes),
			m.Offset)
	}
	return f.share(m, false)
}

// share maps memory in the device's process. The function owns memory that it allocated.
func (f *Function) share(m bus.Memory, owned bool) (*bus.DMA, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, bus.ErrClosed
	}
	n := uint64(len(m.Bytes))
	iova := f.nextIOVA
	r := dmaMap{Flags: dmaRead | dmaWrite, Offset: uint64(m.Offset), IOVA: iova, Size: n}
	if _, err := f.request(cmdDMAMap, r.append(start(dmaMapSize)), m.File); err != nil {
		return nil, err
	}
	f.nextIOVA += n + uint64(os.Getpagesize()) // an access beyond the end fails
	if !owned {
		f.mapped[iova] = nil
		return bus.NewDMA(m, iova, func() error { return f.unshare(iova, n) }), nil
	}
	f.mapped[iova] = m.Bytes
	return bus.NewDMA(m, iova, func() error { return errors.Join(f.unshare(iova, n), m.File.Close()) }), nil
}

// unshare ends a mapping. If the function has gone, so has the mapping in the device's process.
func (f *Function) unshare(iova, n uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.mapped[iova]
	if !ok {
		return nil // Close did it
	}
	delete(f.mapped, iova)
	r := dmaUnmap{IOVA: iova, Size: n}
	_, err := f.request(cmdDMAUnmap, r.append(start(dmaUnmapSize)))
	if errors.Is(err, bus.ErrGone) {
		err = nil
	}
	if b != nil {
		err = errors.Join(err, unix.Munmap(b))
	}
	return err
}

// Reset resets the device.
func (f *Function) Reset() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return bus.ErrClosed
	}
	if err := f.disable(); err != nil {
		return err
	}
	_, err := f.request(cmdReset, start(0))
	return err
}

// Close ends the connection and releases what the function has.
func (f *Function) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	_ = f.disable() // the connection ends anyway
	f.c.c.Close()
	<-f.ended
	var errs []error
	for _, b := range f.mapped {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	clear(f.mapped)
	f.stopTwin()
	return errors.Join(errs...)
}
