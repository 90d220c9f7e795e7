package mlx4

import (
	"slices"
	"sync"
)

// dmaTable has the memory of MapDMA, by address.
type dmaTable struct {
	mu   sync.Mutex
	list []*dma
}

func (t *dmaTable) add(d *dma) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, d)
}

func (t *dmaTable) remove(d *dma) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.DeleteFunc(t.list, func(x *dma) bool { return x == d })
}

// hold returns the memory that covers a range of addresses, with a reference on each. It reports false if a part is not
// mapped.
func (t *dmaTable) hold(addr, n uint64) (held []*dma, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n > 0 {
		d, size := t.find(addr)
		if d == nil || !d.refs.Get() {
			for _, x := range held {
				x.refs.Put()
			}
			return nil, false
		}
		held = append(held, d)
		size = min(size, n)
		addr, n = addr+size, n-size
	}
	return held, true
}

// find returns the memory of an address, and how many bytes of it follow. mu is held.
func (t *dmaTable) find(addr uint64) (*dma, uint64) {
	for _, d := range t.list {
		for _, r := range d.s.ranges() {
			if addr >= r.Addr && addr-r.Addr < r.Size {
				return d, r.Size - (addr - r.Addr)
			}
		}
	}
	return nil, 0
}
