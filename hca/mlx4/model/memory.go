package model

import (
	"errors"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/rvt"
)

// region is memory of the host that a key grants, for the transport. Each access translates its addresses, so that an
// unmap of the host ends the accesses that follow it.
type region struct {
	m     *Model
	start uint64 // the address of the first byte
	size  uint64
	pages translator
	first uint64 // of the first byte in pages
	near  bus.Hint
}

// A translator finds the pages of memory.
type translator interface {
	// page returns the host's address of a byte, and how many bytes follow it contiguously, as far as that is known
	// without effort. want is the number of bytes that the caller needs.
	page(off, want uint64) (addr, n uint64, ok bool)
}

// physical is memory from an address of the host on.
type physical uint64

func (p physical) page(off, _ uint64) (addr, n uint64, ok bool) {
	return uint64(p) + off, 1<<logMaxMRSize - off, off < 1<<logMaxMRSize
}

// pageList is memory of pages of the same size.
type pageList struct {
	log   uint8
	pages []uint64
}

func (l *pageList) page(off, _ uint64) (addr, n uint64, ok bool) {
	in := off & (1<<l.log - 1)
	if i := off >> l.log; i < uint64(len(l.pages)) {
		return l.pages[i] + in, 1<<l.log - in, true
	}
	return 0, 0, false
}

// accessPages copies from or to memory, page by page.
func accessPages(m *Model, t translator, off uint64, p []byte, write bool) bool {
	for len(p) > 0 {
		addr, n, ok := t.page(off, uint64(len(p)))
		if !ok {
			return false
		}
		n = min(n, uint64(len(p)))
		if !m.accessHost(addr, p[:n], write) {
			return false
		}
		p, off = p[n:], off+n
	}
	return true
}

var (
	_ ci.AtomicMemory = (*region)(nil)
	_ rvt.LentMemory  = (*region)(nil)
)

var errUnmapped = errors.New("model: memory that the host has not mapped")

// Addr returns the address of the first byte.
func (r *region) Addr() uint64 { return r.start }

// Len returns the size.
func (r *region) Len() uint64 { return r.size }

// Slice returns nil: memory of the host may be unmapped at any time.
func (r *region) Slice(_, _ uint64) []byte { return nil }

// Lender returns the memory of the host, if there is one.
func (r *region) Lender() rvt.Lender {
	if h := r.m.host.Load(); h != nil {
		return h.Memory()
	}
	return nil
}

// Views implements rvt.LentMemory.
func (r *region) Views(from rvt.Lender, dst [][]byte, off, n uint64, write bool) ([][]byte, bool) {
	h := r.m.host.Load()
	if h == nil {
		return dst, false
	}
	mem := h.Memory()
	if rvt.Lender(mem) != from {
		return dst, false
	}
	views, off := dst, r.first+off
	for n > 0 {
		addr, run, ok := r.pages.page(off, n)
		if !ok || len(views) == cap(views) {
			return dst, false
		}
		b := mem.SliceNear(&r.near, addr, min(run, n), write)
		if len(b) == 0 {
			return dst, false
		}
		views = append(views, b)
		off, n = off+uint64(len(b)), n-uint64(len(b))
	}
	return views, true
}

// Pin does nothing: the host decides what stays mapped.
func (r *region) Pin() (func(), error) { return func() {}, nil }

// ReadAt copies from the region.
func (r *region) ReadAt(p []byte, off int64) (int, error) {
	if !accessPages(r.m, r.pages, r.first+uint64(off), p, false) {
		return 0, errUnmapped
	}
	return len(p), nil
}

// WriteAt copies to the region.
func (r *region) WriteAt(p []byte, off int64) (int, error) {
	if !accessPages(r.m, r.pages, r.first+uint64(off), p, true) {
		return 0, errUnmapped
	}
	return len(p), nil
}

// FetchAdd implements ci.AtomicMemory.
func (r *region) FetchAdd(off, add uint64) (old uint64, err error) {
	return r.atomic(off, bus.Atomic{Operand: add})
}

// CompareSwap implements ci.AtomicMemory.
func (r *region) CompareSwap(off, compare, swap uint64) (old uint64, err error) {
	return r.atomic(off, bus.Atomic{IsSwap: true, Compare: compare, Operand: swap})
}

// atomic executes an operation on the 8 aligned bytes at off.
func (r *region) atomic(off uint64, a bus.Atomic) (uint64, error) {
	addr, _, ok := r.pages.page(r.first+off, wordSize)
	h := r.m.host.Load()
	if !ok || h == nil {
		return 0, errUnmapped
	}
	v := h.Memory().Begin()
	defer v.End()
	old, ok := v.Atomic(addr, a)
	if !ok {
		return 0, errUnmapped
	}
	return old, nil
}

const wordSize = 8
