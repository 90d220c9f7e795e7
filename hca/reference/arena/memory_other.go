//go:build !linux

package arena

import (
	"errors"
	"os"
)

// Memory is a mapping of a memfd.
type Memory struct{ b []byte }

// Create fails with errors.ErrUnsupported.
func Create(int) (*Memory, error) { return nil, errors.ErrUnsupported }

// Open fails with errors.ErrUnsupported.
func Open(*os.File) (*Memory, error) { return nil, errors.ErrUnsupported }

// File returns nil.
func (m *Memory) File() *os.File { return nil }

// Bytes returns nil.
func (m *Memory) Bytes() []byte { return m.b }

// Close does nothing.
func (m *Memory) Close() error { return nil }

func (m *Memory) populate(uint64, uint64) error { return nil }

func (m *Memory) discard(off, n uint64) { clear(m.b[off : off+n]) }
