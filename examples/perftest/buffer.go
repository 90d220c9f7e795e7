package main

import (
	"sync"
	syncatomic "sync/atomic"

	"ciddk/ci"
)

// minBuffer is the least memory of a queue pair in each direction: two pages. With small messages, perftest rotates
// through one of them.
const minBuffer = 8192

// alignment is the alignment of the memory of a queue pair: a cache line, which is more than the 8 bytes of atomics.
const alignment = 64

// A mailbox is memory whose writes a goroutine can wait for. The sides of ib_write_lat write to each other's memory,
// and wait until its last byte changes. A driver writes to it through WriteAt only, which orders the driver's writes
// before the reads of a waiting goroutine.
type mailbox struct {
	ci.Memory // of bytes
	mu        sync.Mutex
	bytes     []byte
	writes    syncatomic.Uint64
	written   chan struct{} // has a capacity of one
}

func newMailbox(n int) *mailbox {
	b := make([]byte, n)
	return &mailbox{Memory: ci.Bytes(b), bytes: b, written: make(chan struct{}, 1)}
}

// Slice returns nil: the bytes cannot be addressed directly.
func (m *mailbox) Slice(off, n uint64) []byte { return nil }

// ReadAt implements ci.Memory.
func (m *mailbox) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Memory.ReadAt(p, off)
}

// WriteAt implements ci.Memory.
func (m *mailbox) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	n, err := m.Memory.WriteAt(p, off)
	m.mu.Unlock()
	m.writes.Add(1)
	select {
	case m.written <- struct{}{}:
	default: // an earlier notification is still pending
	}
	return n, err
}

// at returns the byte at an offset.
func (m *mailbox) at(off int) byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[off]
}
