package accesslayer

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"ciddk/ci"
)

// FMRPoolConfig describes a pool. NewFMRPool creates all FMRs.
type FMRPoolConfig struct {
	ci.FMRCreate // of each FMR; MaxMaps 0: the limit of the HCA
	Size         int
	// DirtyWatermark is the number of FMRs waiting to be unmapped at which the pool starts a flush. 0: a quarter of
	// Size.
	DirtyWatermark int
	// Cache reuses a mapping of the same pages at the same address, until its FMR is mapped to others.
	Cache bool
	// OnFlush, if not nil, is called after every flush with its error. It may use the pool, except Flush and Destroy.
	OnFlush func(error)
}

// FMRPool is a pool of FMRs. New code uses FastRegPool (see the package documentation). Returned mappings are unmapped
// in batches, since each Unmap is a trip to the HCA. FMRs are used in the order in which they were returned. A peer can
// use a returned mapping until the next flush; Flush forces one. Destroying the pool unmaps the mappings that were not
// returned.
type FMRPool struct {
	object
	pd   *PD
	cfg  FMRPoolConfig
	seed maphash.Seed

	flush sync.Mutex // one flush at a time; taken before mu

	mu       sync.Mutex
	fmrs     []*poolFMR          // all that exist
	free     poolList            // can be mapped, oldest first
	dirty    []*poolFMR          // returned after the permitted number of maps
	cache    map[uint64]*poolFMR // by hash: the newest mapping
	flushing bool                // a flush was requested
}

type poolFMR struct {
	fmr    ci.FMR
	region ci.Region
	pages  []uint64
	iova   uint64
	maps   int // number of maps since the last unmap
	users  int
	hash   uint64 // of pages and iova

	prev, next *poolFMR
}

// poolList is a doubly linked list.
type poolList struct{ first, last *poolFMR }

func (l *poolList) push(f *poolFMR) {
	f.prev, f.next = l.last, nil
	if l.last != nil {
		l.last.next = f
	} else {
		l.first = f
	}
	l.last = f
}

func (l *poolList) remove(f *poolFMR) {
	if f.prev != nil {
		f.prev.next = f.next
	} else {
		l.first = f.next
	}
	if f.next != nil {
		f.next.prev = f.prev
	} else {
		l.last = f.prev
	}
	f.prev, f.next = nil, nil
}

// NewFMRPool creates a pool. Status: InvalidParameter (sizes); as ci.PD.AllocFMR; InvalidState with ErrClosed.
func (p *PD) NewFMRPool(cfg FMRPoolConfig) (*FMRPool, error) {
	const verb = "PD.NewFMRPool"
	if cfg.Size <= 0 || cfg.MaxPages <= 0 || cfg.DirtyWatermark < 0 || cfg.DirtyWatermark > cfg.Size {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Size and MaxPages must be above 0, " +
			"and DirtyWatermark 0 to Size"}
	}
	if cfg.MaxMaps == 0 {
		cfg.MaxMaps = max(1, p.ca.a.Attr().MaxMapsPerFMR)
	}
	if cfg.DirtyWatermark == 0 {
		cfg.DirtyWatermark = max(1, cfg.Size/4)
	}
	pool := &FMRPool{pd: p, cfg: cfg, seed: maphash.MakeSeed(), cache: map[uint64]*poolFMR{}}
	pool.n = &node{kind: kindFMRPool, obj: pool}
	err := pool.n.make(p.n, verb, func() (func() error, error) {
		for range cfg.Size {
			in, err := p.verbs.AllocFMR(cfg.FMRCreate)
			if err != nil {
				pool.n.undo = pool.destroyAll() != nil // the reaper destroys the rest
				return pool.destroyAll, err
			}
			f := &poolFMR{fmr: in, pages: make([]uint64, 0, cfg.MaxPages)}
			pool.fmrs = append(pool.fmrs, f)
			pool.free.push(f)
		}
		return pool.destroyAll, nil
	})
	return made(pool, err)
}

// FMRMapping is a set of mapped pages. Region holds its address and keys.
type FMRMapping struct {
	ci.Region
	pool     *FMRPool
	f        *poolFMR
	returned bool // guarded by pool.mu
}

// Map maps DMA addresses of pages of FMRCreate.PageShift. It may be called from callbacks. Status: as ci.FMR.Map;
// InvalidParameter (number of pages); InsufficientResources (all FMRs are mapped, or wait for a flush, which Map
// starts); InvalidHandle with ErrClosed.
func (p *FMRPool) Map(pages []uint64, iova uint64) (*FMRMapping, error) {
	const verb = "FMRPool.Map"
	if len(pages) == 0 || len(pages) > p.cfg.MaxPages {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf("%d pages, must be 1 to %d",
			len(pages), p.cfg.MaxPages)}
	}
	if err := p.n.enter(verb); err != nil {
		return nil, err
	}
	defer p.n.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.find(pages, iova); f != nil {
		if f.users == 0 {
			p.free.remove(f)
		}
		f.users++
		return &FMRMapping{Region: f.region, pool: p, f: f}, nil
	}
	f := p.free.first
	if f == nil {
		if len(p.dirty) > 0 {
			p.requestFlush()
		}
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "all FMRs of the pool are in use " +
			"or wait to be unmapped"}
	}
	p.forget(f)
	region, err := f.fmr.Map(pages, iova)
	if err != nil {
		return nil, err
	}
	p.free.remove(f)
	f.region, f.iova, f.users = region, iova, 1
	f.pages = append(f.pages[:0], pages...)
	f.maps++
	if p.cfg.Cache {
		p.remember(f)
	}
	return &FMRMapping{Region: region, pool: p, f: f}, nil
}

// Unmap returns the mapping to the pool. It may be called from callbacks. The keys are invalid after the next flush.
// Status: InvalidHandle (returned before; with ErrClosed, the pool is destroyed).
func (m *FMRMapping) Unmap() error {
	const verb = "FMRMapping.Unmap"
	p, f := m.pool, m.f
	if err := p.n.enter(verb); err != nil {
		return err
	}
	defer p.n.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.returned {
		return &ci.Error{Verb: verb, Status: ci.InvalidHandle, Detail: "the mapping was returned before"}
	}
	m.returned = true
	f.users--
	switch {
	case f.users > 0:
	case f.maps < p.cfg.MaxMaps:
		p.free.push(f)
	default:
		p.forget(f)
		p.dirty = append(p.dirty, f)
		if len(p.dirty) >= p.cfg.DirtyWatermark {
			p.requestFlush()
		}
	}
	return nil
}

// Flush unmaps everything that was returned. When it returns nil, the keys of all mappings that were returned before
// the call are invalid. It must not be called from a callback. Status: as ci.PD.UnmapFMRs (then the mappings wait for
// the next flush); InvalidHandle with ErrClosed.
func (p *FMRPool) Flush() error {
	return p.n.during("FMRPool.Flush", func() error { return p.unmap(true) })
}

// requestFlush starts a flush of the dirty FMRs on another goroutine. mu is held.
func (p *FMRPool) requestFlush() {
	if !p.flushing {
		p.flushing = true
		p.n.callback(func() {
			if err := p.unmap(false); err != nil {
				p.n.al.cfg.Logger.Error("accesslayer: an FMR pool cannot unmap", "error", err)
			}
		})
	}
}

// unmap unmaps the dirty FMRs, and with idle also those that are mapped but not in use.
func (p *FMRPool) unmap(idle bool) error {
	p.flush.Lock()
	defer p.flush.Unlock()
	p.mu.Lock()
	p.flushing = false
	batch := p.dirty
	p.dirty = nil
	for f := p.free.first; idle && f != nil; {
		next := f.next
		if f.maps > 0 {
			p.free.remove(f)
			p.forget(f)
			batch = append(batch, f)
		}
		f = next
	}
	p.mu.Unlock()
	err := p.unmapBatch(batch)
	p.mu.Lock()
	if err != nil {
		p.dirty = append(p.dirty, batch...)
	} else {
		for _, f := range batch {
			p.free.push(f)
		}
	}
	p.mu.Unlock()
	if p.cfg.OnFlush != nil {
		p.cfg.OnFlush(err)
	}
	return err
}

func (p *FMRPool) unmapBatch(batch []*poolFMR) error {
	if len(batch) == 0 {
		return nil
	}
	fmrs := make([]ci.FMR, len(batch))
	for i, f := range batch {
		fmrs[i] = f.fmr
	}
	if err := p.pd.verbs.UnmapFMRs(fmrs); err != nil {
		return err
	}
	for _, f := range batch {
		f.maps, f.region = 0, ci.Region{}
	}
	return nil
}

// destroyAll destroys all FMRs. After an error of the driver it may be called again.
func (p *FMRPool) destroyAll() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	mapped := slices.DeleteFunc(slices.Clone(p.fmrs), func(f *poolFMR) bool { return f.maps == 0 })
	if err := p.unmapBatch(mapped); err != nil {
		return err
	}
	for n := len(p.fmrs); n > 0; n = len(p.fmrs) {
		if err := p.fmrs[n-1].fmr.Destroy(); err != nil {
			return err
		}
		p.fmrs = p.fmrs[:n-1]
	}
	return nil
}

// find returns the cached mapping of the same pages at the same address, nil if there is none. remember and forget
// maintain the cache. Of two mappings with the same hash, it has the newer one.
func (p *FMRPool) find(pages []uint64, iova uint64) *poolFMR {
	if !p.cfg.Cache {
		return nil
	}
	if f := p.cache[p.hash(pages, iova)]; f != nil && f.iova == iova && slices.Equal(f.pages, pages) {
		return f
	}
	return nil
}

func (p *FMRPool) remember(f *poolFMR) {
	f.hash = p.hash(f.pages, f.iova)
	p.cache[f.hash] = f
}

func (p *FMRPool) forget(f *poolFMR) {
	if p.cache[f.hash] == f {
		delete(p.cache, f.hash)
	}
}

func (p *FMRPool) hash(pages []uint64, iova uint64) uint64 {
	h := maphash.Comparable(p.seed, iova)
	for _, a := range pages {
		h = h*0x9e3779b97f4a7c15 ^ maphash.Comparable(p.seed, a)
	}
	return h
}
