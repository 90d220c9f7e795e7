package fw

import (
	"errors"
	"fmt"
	"sync"

	"ciddk/bus"
)

// memory is all DMA memory of a device, within a limit.
type memory struct {
	f     bus.Function
	limit int64

	mu     sync.Mutex
	used   int64
	live   map[*bus.DMA]struct{}
	closed bool
}

func newMemory(f bus.Function, limit int64) *memory {
	return &memory{f: f, limit: limit, live: map[*bus.DMA]struct{}{}}
}

// alloc allocates zeroed memory.
func (m *memory) alloc(size int) (*bus.DMA, error) {
	n, err := bus.DMASize(size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if int64(n) > m.limit-m.used {
		return nil, fmt.Errorf("%w: %d bytes of DMA memory (%d of %d are in use)", ErrExhausted, n, m.used, m.limit)
	}
	d, err := m.f.AllocDMA(n)
	if err != nil {
		return nil, err
	}
	m.used += int64(len(d.Bytes))
	m.live[d] = struct{}{}
	return d, nil
}

// share makes memory of a file reachable. It counts as memory of alloc does.
func (m *memory) share(x bus.Memory) (*bus.DMA, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if n := int64(len(x.Bytes)); n > m.limit-m.used {
		return nil, fmt.Errorf("%w: %d bytes of DMA memory (%d of %d are in use)", ErrExhausted, n, m.used, m.limit)
	}
	d, err := m.f.MapDMA(x)
	if err != nil {
		return nil, err
	}
	m.used += int64(len(x.Bytes))
	m.live[d] = struct{}{}
	return d, nil
}

// free releases memory of alloc and share. It is idempotent.
func (m *memory) free(d *bus.DMA) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.live[d]; !ok {
		return nil
	}
	delete(m.live, d)
	m.used -= int64(len(d.Bytes))
	return d.Close()
}

// freeAll releases all memory. alloc fails from now on.
func (m *memory) freeAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var errs []error
	for d := range m.live {
		errs = append(errs, d.Close())
	}
	clear(m.live)
	m.used = 0
	return errors.Join(errs...)
}

// AllocBuffer allocates zeroed memory that the adapter reaches at DMA.IOVA. It counts as memory of the device until
// FreeBuffer. Errors: ErrExhausted, ErrClosed.
func (d *Device) AllocBuffer(size int) (*bus.DMA, error) { return d.mem.alloc(size) }

// FreeBuffer releases memory of AllocBuffer. It is idempotent.
func (d *Device) FreeBuffer(m *bus.DMA) error { return d.mem.free(m) }
