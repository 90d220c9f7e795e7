package kproxy

import (
	"io"

	"ciddk/ci"
)

// mapping is memory that a region was registered over. The zero value is none.
type mapping struct {
	mem   ci.Memory
	unmap func() error
}

// release unmaps the memory. The driver must not use it any more.
func (m *mapping) release() {
	if m.unmap != nil {
		_ = m.unmap() // the range was mapped by this package and is intact
	}
	*m = mapping{}
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
