package kproxy

import (
	"io"

	"ciddk/ci"
)

// mapping is memory that regions are registered over. It is released with the last of them.
type mapping struct {
	mem      ci.Memory
	unmap    func() error // nil if nothing was mapped
	readOnly bool         // a write would be a fault
	charge   charge
	regions  int // Session.mu guards it
}

// mayWrite reports whether regions with these rights may be registered over the memory.
func (m *mapping) mayWrite(a ci.Access) bool {
	return !m.readOnly || a&(ci.LocalWrite|ci.RemoteWrite|ci.RemoteAtomic) == 0
}

// release ends a region's use of memory. The driver must not use it any more.
func (c *Session) release(list ...*mapping) {
	var unused []*mapping
	c.mu.Lock()
	for _, m := range list {
		if m.regions--; m.regions == 0 {
			c.dropCharge(m.charge)
			unused = append(unused, m)
		}
	}
	c.mu.Unlock()
	for _, m := range unused {
		if m.unmap != nil {
			_ = m.unmap() // the range was mapped by this package and is intact
		}
	}
}

// sharedMemory is a mapping of a client's memfd, at the client's address.
type sharedMemory struct {
	b    []byte
	addr uint64
}

// Addr returns the client's address.
func (m *sharedMemory) Addr() uint64 { return m.addr }

// Len returns the size.
func (m *sharedMemory) Len() uint64 { return uint64(len(m.b)) }

// Slice returns a view.
func (m *sharedMemory) Slice(off, n uint64) []byte { return m.b[off : off+n] }

// Pin does nothing: a software adapter needs no pages in place.
func (m *sharedMemory) Pin() (func(), error) { return func() {}, nil }

// ReadAt copies from the memory.
func (m *sharedMemory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m.b)) {
		return 0, ci.InvalidParameter
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt copies to the memory.
func (m *sharedMemory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || int64(len(p)) > int64(len(m.b))-off {
		return 0, ci.InvalidParameter
	}
	return copy(m.b[off:], p), nil
}
