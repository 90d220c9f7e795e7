package ual

import (
	"fmt"
	"os"
	"sync"

	"ciddk/ci"
)

// Memory is memory that is shared with the daemon: a sealed memfd. It is a ci.FileMemory, and exposed: see Expose.
type Memory struct {
	ci.Memory
	b    []byte
	file *os.File
	hide func() // ends Expose

	close sync.Once
}

var _ ci.FileMemory = (*Memory)(nil)

// NewMemory allocates n bytes, rounded up to pages, all zero. Close frees them. Errors are those of the system.
func NewMemory(n int) (*Memory, error) {
	if n <= 0 {
		return nil, fmt.Errorf("ual: memory of %d bytes: want at least 1", n)
	}
	page := os.Getpagesize()
	n = (n + page - 1) / page * page
	f, b, err := newShared(n)
	if err != nil {
		return nil, fmt.Errorf("ual: shared memory of %d bytes: %w", n, err)
	}
	m := &Memory{Memory: ci.Bytes(b), b: b, file: f}
	if m.hide, err = Expose(m); err != nil {
		_ = unmap(b) // the mapping is intact
		f.Close()
		return nil, err
	}
	return m, nil
}

// Bytes returns the memory. It is valid until Close.
func (m *Memory) Bytes() []byte { return m.b }

// File returns the memfd.
func (m *Memory) File() (*os.File, int64) { return m.file, 0 }

// Pin does nothing: the memory is not Go's, and stays.
func (m *Memory) Pin() (func(), error) { return func() {}, nil }

// Close unmaps the memory. Regions over it must have been destroyed, and nobody may use Bytes any more. It is
// idempotent.
func (m *Memory) Close() (err error) {
	m.close.Do(func() {
		m.hide()
		err = unmap(m.b)
		if e := m.file.Close(); err == nil {
			err = e
		}
	})
	return err
}
