package mlx4

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"ciddk/bus"
	"ciddk/ci"
)

// bigEndian is the byte order of everything that the driver and the adapter share.
var bigEndian = binary.BigEndian

// storage is memory of a consumer that the adapter reaches. Shared regions share it.
type storage struct {
	pieces []*bus.DMA
	unpin  func()
	refs   atomic.Int32
}

// mapMemory makes n bytes of memory reachable for the adapter.
func (h *HCA) mapMemory(verb string, m ci.Memory, off, n uint64) (_ *storage, err error) {
	unpin, e := m.Pin()
	if e != nil {
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "pinning the memory", Err: e}
	}
	s := &storage{unpin: unpin}
	s.refs.Store(1)
	defer func() {
		if err != nil {
			_ = s.close() // the first error is the one to return
		}
	}()
	for n > 0 {
		piece := bus.Memory{Bytes: joined(m, off, n)}
		detail := "mapping the memory"
		if len(piece.Bytes) == 0 {
			piece = bus.Memory{Remote: section{m, off}, Length: n, PageOffset: (m.Addr() + off) % pageSize}
			detail = "the process cannot address the memory"
		}
		d, e := h.f.MapDMA(piece)
		if e != nil {
			status := ci.InsufficientResources
			if errors.Is(e, bus.ErrNotMappable) {
				status = ci.InvalidParameter
			}
			return nil, &ci.Error{Verb: verb, Status: status, Detail: detail, Err: e}
		}
		s.pieces = append(s.pieces, d)
		off, n = off+piece.Len(), n-piece.Len()
	}
	if !s.isPaged() {
		return nil, fail(verb, ci.InvalidParameter, "the memory has pieces that do not begin or end with a page")
	}
	return s, nil
}

// section is memory from an offset on that the process reaches by copies.
type section struct {
	m   ci.Memory
	off uint64
}

var _ bus.Remote = section{}

// ReadAt implements bus.Remote.
func (s section) ReadAt(b []byte, off int64) (int, error) { return s.m.ReadAt(b, off+int64(s.off)) }

// WriteAt implements bus.Remote.
func (s section) WriteAt(b []byte, off int64) (int, error) { return s.m.WriteAt(b, off+int64(s.off)) }

// errAtomics is the error of an atomic operation on memory that has none.
var errAtomics = errors.New("mlx4: the memory has no atomic operations")

// CompareSwap implements bus.Remote.
func (s section) CompareSwap(off, compare, swap uint64) (uint64, error) {
	if m, ok := s.m.(ci.AtomicMemory); ok {
		return m.CompareSwap(off+s.off, compare, swap)
	}
	return 0, errAtomics
}

// FetchAdd implements bus.Remote.
func (s section) FetchAdd(off, n uint64) (uint64, error) {
	if m, ok := s.m.(ci.AtomicMemory); ok {
		return m.FetchAdd(off+s.off, n)
	}
	return 0, errAtomics
}

// joined returns the bytes from off, at most n. Slices that continue each other in one allocation are one.
func joined(m ci.Memory, off, n uint64) []byte {
	b := m.Slice(off, n)
	for {
		k := uint64(len(b))
		if k == 0 || k >= n || k >= uint64(cap(b)) {
			return b[:min(k, n)]
		}
		next := m.Slice(off+k, n-k)
		if len(next) == 0 || &b[:k+1][k] != &next[0] || k+uint64(len(next)) > uint64(cap(b)) {
			return b
		}
		b = b[:k+uint64(len(next))]
	}
}

// isPaged reports whether all pieces but the first begin with a page, and all but the last end with one.
func (s *storage) isPaged() bool {
	for i, d := range s.pieces {
		end := d.IOVA + d.Len()
		if i > 0 && d.IOVA%pageSize != 0 || i < len(s.pieces)-1 && end%pageSize != 0 {
			return false
		}
	}
	return true
}

// ranges returns the addresses.
func (s *storage) ranges() []ci.DMARange {
	list := make([]ci.DMARange, len(s.pieces))
	for i, d := range s.pieces {
		list[i] = ci.DMARange{Addr: d.IOVA, Size: d.Len()}
	}
	return list
}

// pagesOf returns the addresses of the pages of ranges, and the offset of the first byte in the first page.
func pagesOf(list []ci.DMARange) (pages []uint64, offset uint64) {
	for i, r := range list {
		if i == 0 {
			offset = r.Addr % pageSize
		}
		for at := r.Addr &^ (pageSize - 1); at < r.Addr+r.Size; at += pageSize {
			pages = append(pages, at)
		}
	}
	return pages, offset
}

// share adds a user.
func (s *storage) share() *storage {
	s.refs.Add(1)
	return s
}

// close removes a user. The last one ends the mapping.
func (s *storage) close() error {
	if s.refs.Add(-1) > 0 {
		return nil
	}
	var errs []error
	for _, d := range s.pieces {
		errs = append(errs, d.Close())
	}
	s.unpin()
	return errors.Join(errs...)
}

// keySource has random bits for keys.
type keySource struct {
	mu   sync.Mutex
	last map[uint32]uint32 // of the latest registration, by index
}

// nextKeyIndex returns the number of an MPT entry for SW2HW_MPT. Its upper bits are random, and differ from those of
// the last registration with the index.
func (h *HCA) nextKeyIndex(index uint32) (uint32, error) {
	k := &h.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last = map[uint32]uint32{}
	}
	source := h.cfg.Rand
	if source == nil {
		source = rand.Reader
	}
	for {
		var b [4]byte
		if _, err := io.ReadFull(source, b[:]); err != nil {
			return 0, fmt.Errorf("mlx4: random bits of a key: %w", err)
		}
		n := index | bigEndian.Uint32(b[:])&^(h.caps.NumMPTs-1)
		if old, ok := k.last[index]; !ok || n != old {
			k.last[index] = n
			return n, nil
		}
	}
}

// mptModifier returns the input modifier of MPT commands.
func (h *HCA) mptModifier(index uint32) uint32 { return index & (h.caps.NumMPTs - 1) }
