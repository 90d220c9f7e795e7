package fw

import (
	"context"
	"fmt"
	"math/bits"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// An MTT is a range of the table of address translations.
type MTT struct {
	d     *Device
	unit  uint32
	order int // of units
	freed bool
}

// mttUnit is the number of translations in a unit of the allocator: a cache line of the adapter.
const mttUnit = 8

// AllocMTT allocates translations of n pages, whose ICM is mapped. Errors: ErrExhausted, ErrInvalid.
func (d *Device) AllocMTT(ctx context.Context, n int) (*MTT, error) {
	if n <= 0 || n > int(d.caps.NumMTTs) {
		return nil, fmt.Errorf("%w: %d translations (1 to %d are possible)", ErrInvalid, n, d.caps.NumMTTs)
	}
	order := bits.Len(uint((n+mttUnit-1)/mttUnit - 1))
	unit, ok := d.mtts.alloc(order)
	if !ok {
		return nil, fmt.Errorf("%w: %d translations", ErrExhausted, n)
	}
	m := &MTT{d: d, unit: unit, order: order}
	if err := d.icm.tables[tableMTT].ensure(ctx, &d.icm, m.first(), uint64(m.Len())); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

func (m *MTT) first() uint64 { return uint64(m.unit) * mttUnit }

// Len returns the number of translations of the range. It is at least that of AllocMTT.
func (m *MTT) Len() int { return mttUnit << m.order }

// Offset returns the address for contexts and MPTs: the offset in bytes in the table.
func (m *MTT) Offset() uint64 { return m.first() * prm.MTTSize }

// Write sets translations from first on. pages are device addresses, and multiples of 4 KiB. Errors: ErrInvalid,
// ErrClosed.
func (m *MTT) Write(first int, pages []uint64) error {
	if first < 0 || len(pages) > m.Len() || first > m.Len()-len(pages) {
		return fmt.Errorf("%w: translations %d to %d of %d", ErrInvalid, first, first+len(pages)-1, m.Len())
	}
	icm := &m.d.icm
	icm.use.RLock()
	defer icm.use.RUnlock()
	if icm.end {
		return ErrClosed
	}
	at := m.Offset() + uint64(first)*prm.MTTSize
	for len(pages) > 0 {
		n := min(uint64(len(pages)), (icmChunk-at%icmChunk)/prm.MTTSize)
		b, err := icm.tables[tableMTT].bytes(at, n*prm.MTTSize)
		if err != nil {
			return err
		}
		for i, page := range pages[:n] {
			if page%prm.ICMPageSize != 0 {
				return fmt.Errorf("%w: a page at %#x", ErrInvalid, page)
			}
			Store64(b[8*i:], page|1)
		}
		pages, at = pages[n:], at+n*prm.MTTSize
	}
	return nil
}

// Free releases the range. No region or queue of the adapter may use it. It is idempotent, and must not be called
// concurrently.
func (m *MTT) Free() {
	if !m.freed {
		m.freed = true
		m.d.mtts.release(m.unit, m.order)
	}
}

// A Queue is memory for a queue of the adapter, with its translations.
type Queue struct {
	*bus.DMA
	MTT *MTT
}

// AllocQueue allocates zeroed memory of at least size bytes and writes its translations, of pages of 4 KiB. Errors:
// ErrExhausted, ErrInvalid, ErrClosed.
func (d *Device) AllocQueue(ctx context.Context, size int) (*Queue, error) {
	mem, err := d.mem.alloc(size)
	if err != nil {
		return nil, err
	}
	return d.newQueue(ctx, mem)
}

// MapQueue is AllocQueue with memory of a file that another process maps, too: whole pages. FreeQueue ends the mapping;
// the memory remains the caller's. Errors: also those of bus.Function.MapDMA.
func (d *Device) MapQueue(ctx context.Context, m bus.Memory) (*Queue, error) {
	if len(m.Bytes) == 0 || len(m.Bytes)%prm.ICMPageSize != 0 {
		return nil, fmt.Errorf("%w: a queue of %d bytes is not whole pages", ErrInvalid, len(m.Bytes))
	}
	mem, err := d.mem.share(m)
	if err != nil {
		return nil, err
	}
	return d.newQueue(ctx, mem)
}

// newQueue writes the translations of memory, which it takes over.
func (d *Device) newQueue(ctx context.Context, mem *bus.DMA) (_ *Queue, err error) {
	q := &Queue{DMA: mem}
	pages := make([]uint64, len(mem.Bytes)/prm.ICMPageSize)
	for i := range pages {
		pages[i] = mem.IOVA + uint64(i)*prm.ICMPageSize
	}
	if q.MTT, err = d.AllocMTT(ctx, len(pages)); err == nil {
		err = q.MTT.Write(0, pages)
	}
	if err != nil {
		_ = d.FreeQueue(q) // the error to report is the first one
		return nil, err
	}
	return q, nil
}

// FreeQueue releases the memory and the translations of a queue that the adapter does not use any more. It is
// idempotent.
func (d *Device) FreeQueue(q *Queue) error {
	if q.MTT != nil {
		q.MTT.Free()
	}
	return d.mem.free(q.DMA)
}
