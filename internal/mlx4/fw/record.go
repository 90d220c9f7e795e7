package fw

import (
	"math/bits"
	"sync"

	"ciddk/bus"
)

// A Record is a doorbell record: 8 bytes that the adapter reaches at IOVA.
type Record struct {
	Bytes []byte
	IOVA  uint64

	slab *recordSlab
	slot int
}

const (
	recordSize  = 8
	recordSpace = 64 // a cache line
	slabRecords = 1024
	slabBytes   = slabRecords * recordSpace
)

// recordSlab is memory of doorbell records.
type recordSlab struct {
	mem  *bus.DMA
	used [slabRecords / 64]uint64
}

// records are the doorbell records of a device.
type records struct {
	mem   *memory
	mu    sync.Mutex
	slabs []*recordSlab
}

// AllocRecord allocates a doorbell record of zeros in a cache line of its own. Errors: ErrExhausted, ErrClosed.
func (d *Device) AllocRecord() (*Record, error) { return d.records.alloc() }

// FreeRecord releases a doorbell record. It is idempotent.
func (d *Device) FreeRecord(r *Record) { d.records.free(r) }

func (x *records) alloc() (*Record, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.slabs {
		if r := s.take(); r != nil {
			return r, nil
		}
	}
	mem, err := x.mem.alloc(slabBytes)
	if err != nil {
		return nil, err
	}
	s := &recordSlab{mem: mem}
	x.slabs = append(x.slabs, s)
	return s.take(), nil
}

// take returns an unused record of the slab, or nil.
func (s *recordSlab) take() *Record {
	for i, w := range s.used {
		if w == 1<<64-1 {
			continue
		}
		bit := bits.TrailingZeros64(^w)
		s.used[i] |= 1 << bit
		slot := 64*i + bit
		at := slot * recordSpace
		b := s.mem.Bytes[at : at+recordSize : at+recordSize]
		Store32(b, 0)
		Store32(b[4:], 0)
		return &Record{Bytes: b, IOVA: s.mem.IOVA + uint64(at), slab: s, slot: slot}
	}
	return nil
}

func (x *records) free(r *Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r.slab != nil {
		r.slab.used[r.slot/64] &^= 1 << (r.slot % 64)
		r.slab = nil
	}
}
