package bus

import (
	"encoding/binary"
	"fmt"
)

// An Accessor is what a back end needs to make a Space: accesses of 1, 2, 4 or 8 bytes, aligned and within the space.
// The numbers are those of little-endian registers.
type Accessor interface {
	Load(off uint64, size int) (uint64, error)
	Store(off uint64, size int, v uint64) error
}

// NewSpace returns a Space over a back end's accesses. If an access fails, a read returns all ones.
func NewSpace(size uint64, a Accessor) Space { return &space{size, a} }

type space struct {
	size uint64
	a    Accessor
}

func (s *space) Size() uint64 { return s.size }

// isValid reports whether an access of n bytes is aligned and within the space.
func (s *space) isValid(off, n uint64) bool { return off%n == 0 && off < s.size && n <= s.size-off }

func (s *space) load(off uint64, n int) uint64 {
	if s.isValid(off, uint64(n)) {
		if v, err := s.a.Load(off, n); err == nil {
			return v
		}
	}
	return 1<<64 - 1
}

func (s *space) store(off uint64, n int, v uint64) {
	if s.isValid(off, uint64(n)) {
		_ = s.a.Store(off, n, v) // the function has gone, which Function.Gone reports
	}
}

func (s *space) Read8(off uint64) uint8   { return uint8(s.load(off, 1)) }
func (s *space) Read16(off uint64) uint16 { return uint16(s.load(off, 2)) }
func (s *space) Read32(off uint64) uint32 { return uint32(s.load(off, 4)) }
func (s *space) Read64(off uint64) uint64 { return s.load(off, 8) }

func (s *space) Write8(off uint64, v uint8)   { s.store(off, 1, uint64(v)) }
func (s *space) Write16(off uint64, v uint16) { s.store(off, 2, uint64(v)) }
func (s *space) Write32(off uint64, v uint32) { s.store(off, 4, uint64(v)) }
func (s *space) Write64(off, v uint64)        { s.store(off, 8, v) }

func (s *space) Copy(off uint64, b []byte) {
	for len(b) > 0 {
		n := Piece(off, len(b))
		s.store(off, n, Number(b[:n]))
		off, b = off+uint64(n), b[n:]
	}
}

// Piece returns the size of the largest aligned access at off that is no longer than n: 8, 4, 2 or 1. n is at least 1.
func Piece(off uint64, n int) int {
	size := 8
	for size > n || off%uint64(size) != 0 {
		size /= 2
	}
	return size
}

// Number returns the number that 1, 2, 4 or 8 bytes are in a little-endian register.
func Number(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// PutNumber is the reverse of Number.
func PutNumber(b []byte, v uint64) {
	switch len(b) {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// Spaces are the BARs of a function, for back ends: nil is none.
type Spaces [NumBARs]Space

// BAR returns a BAR. See Function.
func (s *Spaces) BAR(n int) (Space, error) {
	if n < 0 || n >= NumBARs || s[n] == nil {
		return nil, fmt.Errorf("%w: %d", ErrNoBAR, n)
	}
	return s[n], nil
}
