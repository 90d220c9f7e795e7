package rvt

import (
	"encoding/binary"
	"io"
	"sync"
)

// source returns random numbers from a reader.
type source struct {
	mu sync.Mutex
	r  io.Reader
}

func (s *source) uint32() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b [4]byte
	if _, err := io.ReadFull(s.r, b[:]); err != nil {
		panic("rvt: the source of randomness failed: " +
			err.Error()) // crypto/rand never does; a test's reader must not
	}
	return binary.BigEndian.Uint32(b[:])
}
