package rvt

import (
	"math"
	"slices"
	"sort"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// The DMA space of an HCA. Addresses are random and lie above all virtual addresses of present processors, so that the
// first access fails when a consumer confuses the two kinds. Storage of more than a page is mapped in several ranges,
// so that consumers are tested with memory that is scattered as physical memory is.

// DMA is storage mapped into the HCA's DMA space.
type DMA struct {
	ci.UnimplementedDMA
	refs   driver.Refs // regions over it
	use                // regions over it whose last access is still going on
	dev    *device
	parent *driver.Refs // of the CA
	bytes  *storage
	ranges []ci.DMARange
}

// dmaSpace maps DMA addresses to storage. The zero value is ready.
type dmaSpace struct {
	mu   sync.RWMutex
	runs []dmaRun // by address
}

// dmaRun is a run of DMA addresses, linear in the storage of d from off.
type dmaRun struct {
	addr, size uint64 // size ends with the storage, not with the page
	span       uint64 // addresses that are taken: size up to a page of the run's alignment
	d          *DMA
	off        uint64
}

const (
	dmaLow  = 1 << 48
	dmaHigh = 1 << 60
)

// MapDMA maps storage into the DMA space.
func (c *CA) MapDMA(m ci.Memory) (ci.DMA, error) {
	const verb = "CA.MapDMA"
	dev := &c.hca.device
	switch {
	case dev.attr.Caps&(ci.CapPhysicalMR|ci.CapFMR|ci.CapFastReg) == 0:
		return c.UnimplementedCA.MapDMA(m)
	case ci.IsNil(m) || m.Len() == 0:
		return nil, failf(verb, ci.InvalidParameter, "there is no memory to map")
	case m.Len() > dev.attr.MaxMRSize || m.Len() > math.MaxInt64:
		return nil, failf(verb, ci.InvalidParameter, "longer than CAAttr.MaxMRSize")
	case !c.refs.Get():
		return nil, fail(verb, ci.InvalidCAHandle)
	}
	dev.limit[kindDMA].Add(1)
	size := m.Len()
	d := &DMA{dev: dev, parent: &c.refs, bytes: newStorage(extents(m, 0, size))}
	if !dev.keys.dma.add(d, size, dev) {
		dev.drop(kindDMA)
		c.refs.Put()
		return nil, failf(verb, ci.InsufficientResources, "the DMA space is full")
	}
	return d, nil
}

// Ranges returns the DMA addresses in order. The last range is rounded up to a whole page. The bytes behind the storage
// do not exist.
func (d *DMA) Ranges() []ci.DMARange { return d.ranges }

// Destroy unmaps the storage. It waits for accesses in progress.
func (d *DMA) Destroy() error {
	if err := d.refs.BeginDestroy("DMA.Destroy", ci.InvalidHandle); err != nil {
		return err
	}
	dev := d.dev
	dev.keys.dma.remove(d)
	d.end()
	done := make(chan struct{})
	if !d.settled(func() { close(done) }) {
		<-done
	}
	dev.drop(kindDMA)
	d.parent.Put()
	return nil
}

// add divides size bytes of d into runs of 1, 3, 9, 27 … pages and assigns an address to each. The page is the
// largest page size of the HCA that is not larger than the storage, so that regions may use any of the smaller ones.
func (s *dmaSpace) add(d *DMA, size uint64, dev *device) bool {
	small := dev.pageSize()
	page := small
	for _, p := range dev.attr.PageSizes {
		if p <= size {
			page = max(page, p)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for off, run := uint64(0), page; off < size; run *= 3 {
		n := min(run, size-off)
		span := (n + page - 1) &^ (page - 1)
		addr, ok := s.draw(span, page, dev.rand)
		if !ok {
			s.drop(d)
			return false
		}
		i := s.after(addr)
		s.runs = slices.Insert(s.runs, i, dmaRun{addr: addr, size: n, span: span, d: d, off: off})
		d.ranges = append(d.ranges, ci.DMARange{Addr: addr, Size: (n + small - 1) &^ (small - 1)})
		off += n
	}
	return true
}

// draw returns a random address with span free addresses, and a free page before and behind them.
func (s *dmaSpace) draw(span, page uint64, r *source) (uint64, bool) {
	if span > dmaHigh/4 {
		return 0, false
	}
	for range 64 {
		x := uint64(r.uint32())<<32 | uint64(r.uint32())
		addr := (dmaLow + x%(dmaHigh-dmaLow-span)) &^ (page - 1)
		i := s.after(addr)
		if (i == 0 || s.runs[i-1].addr+s.runs[i-1].span < addr) && (i == len(s.runs) || addr+span < s.runs[i].addr) {
			return addr, true
		}
	}
	return 0, false
}

// after returns the index of the first run that begins above addr.
func (s *dmaSpace) after(addr uint64) int {
	return sort.Search(len(s.runs), func(i int) bool { return s.runs[i].addr > addr })
}

func (s *dmaSpace) drop(d *DMA) {
	s.runs = slices.DeleteFunc(s.runs, func(r dmaRun) bool { return r.d == d })
}

func (s *dmaSpace) remove(d *DMA) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(d)
}

// dmaCollector collects the storage behind DMA addresses and takes a reference on each DMA that it uses. The caller
// defers done.
type dmaCollector struct {
	pieces []dmaPiece
	dmas   []*DMA
	size   uint64
}

type dmaPiece struct {
	d      *DMA
	off, n uint64
}

// add appends the bytes at n DMA addresses. It reports false if not all of them are mapped.
func (c *dmaCollector) add(s *dmaSpace, addr, n uint64) bool { return c.upTo(s, addr, n) == n }

// upTo appends the bytes at n DMA addresses, up to the first that is not mapped, and returns their number.
func (c *dmaCollector) upTo(s *dmaSpace, addr, n uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var got uint64
	for got < n {
		i := s.after(addr+got) - 1
		if i < 0 {
			break
		}
		r := &s.runs[i]
		skip := addr + got - r.addr
		if skip >= r.size || !c.reference(r.d) {
			break
		}
		k := min(n-got, r.size-skip)
		c.append(r.d, r.off+skip, k)
		got += k
	}
	return got
}

// reference takes a reference on d unless the collector has one. It reports false if d has been unmapped.
func (c *dmaCollector) reference(d *DMA) bool {
	if slices.Contains(c.dmas, d) {
		return true
	}
	if !d.refs.Get() {
		return false
	}
	d.enter() // cannot fail: refs keep it
	c.dmas = append(c.dmas, d)
	return true
}

// append adds n bytes of d. It extends the last piece if they follow it, so that a region over a whole DMA is as fast
// as one over its memory.
func (c *dmaCollector) append(d *DMA, off, n uint64) {
	c.size += n
	if k := len(c.pieces); k > 0 {
		if p := &c.pieces[k-1]; p.d == d && p.off+p.n == off {
			p.n += n
			return
		}
	}
	c.pieces = append(c.pieces, dmaPiece{d, off, n})
}

// place returns the collected storage as the place of a region at va. The references become those of the place.
func (c *dmaCollector) place(va uint64) *place {
	var segs []segment
	for _, p := range c.pieces {
		segs = append(segs, p.d.bytes.parts(p.off, p.n)...)
	}
	p := &place{va: va, length: c.size, bytes: newStorage(segs), dmas: c.dmas}
	c.dmas = nil
	return p
}

// done releases the references that no place has taken over.
func (c *dmaCollector) done() {
	p := place{dmas: c.dmas}
	p.drop()
}
