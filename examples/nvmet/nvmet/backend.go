package nvmet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

const blockLen = 512

// Backend has the blocks of a namespace. Its methods may be called concurrently. A read or write is within Size.
type Backend interface {
	io.ReaderAt
	io.WriterAt
	Size() int64 // in bytes; what exceeds a multiple of 512 is not used
	Sync() error // makes completed writes durable
}

// RAM is a Backend in memory.
type RAM struct {
	mu sync.RWMutex
	b  []byte
}

// NewRAM returns a Backend of n bytes of zeros.
func NewRAM(n int) *RAM { return &RAM{b: make([]byte, n)} }

// ReadAt implements Backend.
func (r *RAM) ReadAt(b []byte, off int64) (int, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return copy(b, r.b[off:]), nil
}

// WriteAt implements Backend.
func (r *RAM) WriteAt(b []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return copy(r.b[off:], b), nil
}

// Size implements Backend.
func (r *RAM) Size() int64 { return int64(len(r.b)) }

// Sync implements Backend.
func (r *RAM) Sync() error { return nil }

// File is a Backend in a file.
type File struct {
	*os.File
	size int64
}

// OpenFile opens a file as a Backend. It creates a file of size bytes if there is none.
func OpenFile(name string, size int64) (*File, error) {
	if size < blockLen {
		return nil, fmt.Errorf("%s: %d bytes, want at least %d", name, size, blockLen)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		err = f.Truncate(size)
	} else if err == nil {
		size = info.Size()
	}
	if err == nil && size < blockLen {
		err = fmt.Errorf("%s: %d bytes, want at least %d", name, size, blockLen)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f, size}, nil
}

// Size implements Backend.
func (f *File) Size() int64 { return f.size }
