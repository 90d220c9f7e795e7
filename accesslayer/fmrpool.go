package accesslayer

import (
	"hash/maphash"
	"slices"
	"sync"

	"ciddk/ci"
)

// FMRPoolConfig describes a pool. The FMRs are all made at once.
type FMRPoolConfig struct {
	ci.FMRCreate // of each; MaxMaps 0: as many as the HCA allows
	Size         int
	// DirtyWatermark is the number of FMRs waiting to be unmapped at which a flush begins by itself. 0: a quarter of Size.
	DirtyWatermark int
	// Cache finds a mapping of the same pages at the same address again, as long as its FMR was not used for another.
	Cache bool
	// OnFlush is called after every flush, with its error. It may use the pool, but not Flush, Destroy or Close. May be nil.
	OnFlush func(error)
}

// FMRPool is a pool of FMRs. New code uses FastRegPool (see the package documentation). Returned mappings are unmapped
// in batches, since each Unmap is a trip to the HCA. A peer can use a returned mapping until the next flush; Flush forces
// one. Destroying the pool unmaps the mappings that were not returned.
type FMRPool struct {
	object
	pd   *PD
	cfg  FMRPoolConfig
	seed maphash.Seed

	flush sync.Mutex // one flush at a time; taken before mu

	mu       sync.Mutex
	fmrs     []*poolFMR // that exist
	free     poolList   // may be mapped, oldest first
	dirty    []*poolFMR // mapped as often as allowed, and given back
	cache    map[uint64]*poolFMR
	flushing bool // a flush has been asked for
}

type poolFMR struct {
	fmr    ci.FMR
	region ci.Region
	pages  []uint64
	iova   uint64
	maps   int // since the last unmap
	users  int
	hash   uint64
	cached *poolFMR // next with the same hash

	prev, next *poolFMR
	inFree     bool
}

// poolList is a list through prev and next.
type poolList struct{ first, last *poolFMR }

func (l *poolList) push(f *poolFMR) {
	f.prev, f.next, f.inFree = l.last, nil, true
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
	f.prev, f.next, f.inFree = nil, nil, false
}

// NewFMRPool makes a pool. Status: InvalidParameter (sizes), as ci.PD.AllocFMR; InvalidState with ErrClosed.
func (p *PD) NewFMRPool(cfg FMRPoolConfig) (*FMRPool, error) {
	const verb = "PD.NewFMRPool"
	if cfg.Size <= 0 || cfg.MaxPages <= 0 || cfg.DirtyWatermark < 0 || cfg.DirtyWatermark > cfg.Size {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Size and MaxPages must be above 0, DirtyWatermark 0 to Size"}
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
				pool.n.undo = pool.destroyAll() != nil // then the reaper goes on with it
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

// FMRMapping is pages mapped. Region tells address and keys.
type FMRMapping struct {
	ci.Region
	pool     *FMRPool
	f        *poolFMR
	returned bool // guarded by pool.mu
}

// Map maps DMA addresses of FMRCreate.PageShift size; it may be called from callbacks. Status: as ci.FMR.Map; InvalidParameter
// (number of pages); InsufficientResources (all in use, or waiting for a flush, which is then begun); InvalidHandle with ErrClosed.
func (p *FMRPool) Map(pages []uint64, iova uint64) (*FMRMapping, error) {
	const verb = "FMRPool.Map"
	if len(pages) == 0 || len(pages) > p.cfg.MaxPages {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the number of pages must be 1 to MaxPages"}
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
			p.askFlush()
		}
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "every FMR of the pool is in use or waits to be unmapped"}
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
	p.remember(f)
	return &FMRMapping{Region: region, pool: p, f: f}, nil
}

// Unmap gives the mapping back; it may be called from callbacks. The keys are dead after the next flush.
// Status: InvalidHandle (given back before; pool destroyed).
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
		return &ci.Error{Verb: verb, Status: ci.InvalidHandle, Detail: "given back before"}
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
			p.askFlush()
		}
	}
	return nil
}

// Flush unmaps everything that was given back: when it returns nil, no key of a mapping given back before works any more. Not from a
// callback. Status: as ci.PD.UnmapFMRs (then what could not be unmapped waits for the next flush); InvalidHandle with ErrClosed.
func (p *FMRPool) Flush() error {
	return p.n.during("FMRPool.Flush", func() error { return p.unmap(true) })
}

// askFlush has the dirty ones unmapped on another goroutine; mu is held.
func (p *FMRPool) askFlush() {
	if !p.flushing {
		p.flushing = true
		p.n.callback(func() {
			if err := p.unmap(false); err != nil {
				p.n.al.cfg.Logger.Error("accesslayer: an FMR pool cannot unmap", "error", err)
			}
		})
	}
}

// unmap unmaps the dirty ones, and with idle the others that are mapped but not in use.
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

// destroyAll may be called again, after the driver has refused something.
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

// find, remember and forget are the cache.
func (p *FMRPool) find(pages []uint64, iova uint64) *poolFMR {
	if !p.cfg.Cache {
		return nil
	}
	for f := p.cache[p.hash(pages, iova)]; f != nil; f = f.cached {
		if f.iova == iova && slices.Equal(f.pages, pages) {
			return f
		}
	}
	return nil
}

func (p *FMRPool) remember(f *poolFMR) {
	if p.cfg.Cache {
		f.hash = p.hash(f.pages, f.iova)
		f.cached = p.cache[f.hash]
		p.cache[f.hash] = f
	}
}

func (p *FMRPool) forget(f *poolFMR) {
	at := p.cache[f.hash]
	if at == f {
		if f.cached == nil {
			delete(p.cache, f.hash)
		} else {
			p.cache[f.hash] = f.cached
		}
	}
	for ; at != nil; at = at.cached {
		if at.cached == f {
			at.cached = f.cached
			break
		}
	}
	f.cached = nil
}

func (p *FMRPool) hash(pages []uint64, iova uint64) uint64 {
	h := maphash.Comparable(p.seed, iova)
	for _, a := range pages {
		h = h*0x9e3779b97f4a7c15 ^ maphash.Comparable(p.seed, a)
	}
	return h
}
