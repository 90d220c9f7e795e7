package arena

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"ciddk/internal/memfd"
)

// Memory is a mapping of a memfd.
type Memory struct {
	f *os.File
	b []byte
}

// Create returns new memory of size bytes, a multiple of PageSize. It is sealed and mapped. Pages that are not used
// occupy no memory.
func Create(size int) (*Memory, error) {
	if size <= 0 || size%PageSize != 0 {
		return nil, fmt.Errorf("arena: size %d: want a positive multiple of %d", size, PageSize)
	}
	f, err := memfd.Create("ciddk-queues", size)
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	return mapped(f, size)
}

// Open maps memory that another process has created. It keeps a duplicate of f. Error: f is no memfd of a size that
// is a multiple of PageSize, or can shrink or grow.
func Open(f *os.File) (*Memory, error) {
	have, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("arena: the file is no memfd: %w", err)
	}
	if have&memfd.Seals != memfd.Seals {
		return nil, fmt.Errorf("arena: the file has the seals %#x, want %#x", have, memfd.Seals)
	}
	i, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	if i.Size() <= 0 || i.Size()%PageSize != 0 || i.Size() != int64(int(i.Size())) {
		return nil, fmt.Errorf("arena: the file has %d bytes: want a multiple of %d", i.Size(), PageSize)
	}
	d, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return mapped(d, int(i.Size()))
}

// mapped maps f, which it closes if it fails.
func mapped(f *os.File, size int) (*Memory, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("arena: mmap of %d bytes: %w", size, err), f.Close())
	}
	return &Memory{f: f, b: b}, nil
}

// File returns the descriptor, which remains the memory's.
func (m *Memory) File() *os.File { return m.f }

// Bytes returns the mapping. It is valid until Close.
func (m *Memory) Bytes() []byte { return m.b }

// Close unmaps the memory. The caller has ended all uses of Bytes. It is idempotent.
func (m *Memory) Close() error {
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b = nil
	return errors.Join(unix.Munmap(b), m.f.Close())
}

// populate makes pages exist.
func (m *Memory) populate(off, n uint64) error {
	return unix.Fallocate(int(m.f.Fd()), 0, int64(off), int64(n))
}

// discard releases pages. They read as zeros afterwards.
func (m *Memory) discard(off, n uint64) {
	if unix.Fallocate(int(m.f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(off), int64(n)) != nil {
		clear(m.b[off : off+n])
	}
}
