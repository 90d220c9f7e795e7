package arena

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// PageSize is the unit of allocations.
const PageSize = 4096

// ErrFull is the error of an Alloc for which there is no room.
var ErrFull = errors.New("the shared memory is used up")

// Pages allocates runs of pages of a Memory. It keeps its records outside the Memory. Its methods may be called
// concurrently.
type Pages struct {
	m *Memory

	mu   sync.Mutex
	free []span // by offset; neighbours are merged
	used map[uint64]uint64
}

// span is a run of bytes.
type span struct{ off, n uint64 }

// NewPages returns an allocator of the memory behind the first reserved bytes.
func NewPages(m *Memory, reserved uint64) *Pages {
	reserved = roundUp(reserved)
	return &Pages{m: m, free: []span{{reserved, uint64(len(m.b)) - reserved}}, used: map[uint64]uint64{}}
}

func roundUp(n uint64) uint64 { return (n + PageSize - 1) &^ (PageSize - 1) }

// Alloc returns the offset of n bytes, which are zero, and the bytes. Error: ErrFull, or that of the system.
func (p *Pages) Alloc(n int) (off uint64, b []byte, err error) {
	if n <= 0 {
		return 0, nil, fmt.Errorf("arena: allocation of %d bytes", n)
	}
	size := roundUp(uint64(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.free, func(s span) bool { return s.n >= size })
	if i < 0 {
		return 0, nil, fmt.Errorf("arena: %d bytes: %w", n, ErrFull)
	}
	off = p.free[i].off
	if err := p.m.populate(off, size); err != nil {
		return 0, nil, fmt.Errorf("arena: %d bytes: %w", n, err)
	}
	if p.free[i].off, p.free[i].n = off+size, p.free[i].n-size; p.free[i].n == 0 {
		p.free = slices.Delete(p.free, i, i+1)
	}
	p.used[off] = size
	return off, p.m.b[off : off+uint64(n) : off+uint64(n)], nil
}

// Free releases what Alloc returned at off, and its pages. It ignores an offset that is not allocated.
func (p *Pages) Free(off uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.used[off]
	if !ok {
		return
	}
	delete(p.used, off)
	p.m.discard(off, n)
	i, _ := slices.BinarySearchFunc(p.free, off, func(s span, off uint64) int {
		if s.off < off {
			return -1
		}
		return 1
	})
	p.free = slices.Insert(p.free, i, span{off, n})
	if i+1 < len(p.free) && p.free[i].off+p.free[i].n == p.free[i+1].off {
		p.free[i].n += p.free[i+1].n
		p.free = slices.Delete(p.free, i+1, i+2)
	}
	if i > 0 && p.free[i-1].off+p.free[i-1].n == p.free[i].off {
		p.free[i-1].n += p.free[i].n
		p.free = slices.Delete(p.free, i, i+1)
	}
}

// Used returns the number of bytes that are allocated.
func (p *Pages) Used() (n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.used {
		n += k
	}
	return n
}
