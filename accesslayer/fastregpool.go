package accesslayer

import (
	"fmt"
	"slices"
	"sync"

	"ciddk/ci"
)

// FastRegPoolConfig describes a pool. NewFastRegPool creates all regions.
type FastRegPoolConfig struct {
	Size     int // number of regions, which limits the mappings at a time
	MaxPages int // of each region; n pages of memory need n+1 if the memory begins inside a page
	// PageShift is log2 of the page size, which must be one of CAAttr.PageSizes. 0: 12, for 4 KiB.
	PageShift uint8
}

// FastRegPool is a pool of regions for fast registration (IBTA volume 1, 10.6.4 and 11.4.1). A work request registers
// memory, in order with the requests that use it. Another work request invalidates the keys. Neither calls a verb of
// the driver for keys. A mapping is used as follows:
//
//	m, err := pool.Map(ci.Bytes(b), ci.LocalWrite|ci.RemoteWrite) // maps for DMA, takes a region and its next key
//	n, err := qp.PostSend([]ci.SendWR{m.Register(), send})        // executed in order, so no wait is needed
//	…                                                             // the peer has finished
//	n, err = qp.PostSend([]ci.SendWR{m.Invalidate()})             // after its completion, the keys are invalid
//	err = m.Unmap()                                               // the caller may change or free the memory
//
// After an error of the QP no key can be invalidated; use Drop instead of Unmap. Work requests are posted to QPs of the
// pool's PD. Each mapping of a region uses the next of 256 keys, so that an old key that a peer still holds grants no
// access. Regions are used in the order in which they were returned. Destroying the pool releases the mappings that
// were not returned; destroy the QPs before.
type FastRegPool struct {
	object
	pd  *PD
	cfg FastRegPoolConfig
	all []*fastRegion

	mu   sync.Mutex
	free []*fastRegion // in the order in which they were returned
}

// fastRegion is used by the goroutine that has taken it from free.
type fastRegion struct {
	mr    ci.MR // nil: destroyed by Drop, and to be created again
	dma   ci.DMA
	key   ci.Key // of the last mapping
	pages []uint64
}

// NewFastRegPool creates a pool. Status: InvalidParameter (sizes; a PageShift that the HCA does not support); as
// ci.PD.AllocFastRegMR; InvalidState with ErrClosed.
func (p *PD) NewFastRegPool(cfg FastRegPoolConfig) (*FastRegPool, error) {
	const verb = "PD.NewFastRegPool"
	if cfg.PageShift == 0 {
		cfg.PageShift = 12
	}
	sizes := p.ca.a.Attr().PageSizes
	switch {
	case cfg.Size <= 0 || cfg.MaxPages <= 0:
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "Size and MaxPages must be above 0"}
	case cfg.PageShift >= 64 || !slices.Contains(sizes, 1<<cfg.PageShift):
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf("PageShift is %d, the HCA "+
			"has pages of %v bytes", cfg.PageShift, sizes)}
	}
	pool := &FastRegPool{pd: p, cfg: cfg}
	pool.n = &node{kind: kindFastRegPool, obj: pool}
	err := pool.n.make(p.n, verb, func() (func() error, error) {
		for range cfg.Size {
			r := &fastRegion{}
			if err := pool.renew(r); err != nil {
				pool.n.undo = pool.destroyAll() != nil // the reaper destroys the rest
				return pool.destroyAll, err
			}
			pool.all = append(pool.all, r)
		}
		pool.free = slices.Clone(pool.all)
		return pool.destroyAll, nil
	})
	return made(pool, err)
}

// renew creates the region of r.
func (p *FastRegPool) renew(r *fastRegion) error {
	mr, err := p.pd.verbs.AllocFastRegMR(p.cfg.MaxPages)
	if err == nil {
		r.mr, r.key = mr, mr.Region().LKey
	}
	return err
}

// FastRegMapping is memory in a region of a pool. Region holds its address and keys. The keys are valid from the
// execution of Register's request to the execution of Invalidate's. The address is that of the memory in the HCA's DMA
// space; with ci.ZeroBased, it is 0.
type FastRegMapping struct {
	ci.Region
	pool     *FastRegPool
	r        *fastRegion
	ext      ci.SendExt
	returned bool // guarded by pool.mu
}

// Map takes a region and maps memory for DMA. The memory must stay in place until Unmap or Drop. Map must not be called
// from a callback. Status: as ci.CA.MapDMA; InvalidParameter (nil, more than MaxPages, or memory whose pieces are not
// whole pages); InvalidPermission (remote write or atomic without LocalWrite); InsufficientResources (all regions are
// in use); as ci.PD.AllocFastRegMR, when a dropped region is replaced; InvalidHandle with ErrClosed.
func (p *FastRegPool) Map(mem ci.Memory, access ci.Access) (*FastRegMapping, error) {
	const verb = "FastRegPool.Map"
	switch {
	case ci.IsNil(mem):
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "mem is nil"}
	case access&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && access&ci.LocalWrite == 0: // the HCA would end the connection
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "remote write and atomic need " +
			"LocalWrite"}
	}
	if err := p.n.enter(verb); err != nil {
		return nil, err
	}
	defer p.n.leave()
	p.mu.Lock()
	if len(p.free) == 0 {
		p.mu.Unlock()
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources,
			Detail: "all regions of the pool are in use"}
	}
	r := p.free[0]
	p.free = slices.Delete(p.free, 0, 1)
	p.mu.Unlock()
	m, err := p.put(verb, r, mem, access)
	if err != nil {
		p.takeBack(r)
		return nil, err
	}
	return m, nil
}

// put maps memory into r.
func (p *FastRegPool) put(verb string, r *fastRegion, mem ci.Memory, access ci.Access) (*FastRegMapping, error) {
	if err := p.unmap(r); err != nil { // left over from a Map that failed
		return nil, err
	}
	if r.mr == nil {
		if err := p.renew(r); err != nil {
			return nil, err
		}
	}
	dma, err := p.pd.ca.verbs.MapDMA(mem)
	if err != nil {
		return nil, err
	}
	r.dma = dma // destroyed with the pool at the latest
	ranges := dma.Ranges()
	if r.pages, err = pagesOf(verb, r.pages[:0], ranges, p.cfg); err != nil {
		if bad := p.unmap(r); bad != nil {
			p.pd.n.al.cfg.Logger.Error("accesslayer: a fast registration pool cannot unmap memory", "error", bad)
		}
		return nil, err
	}
	first := ranges[0].Addr
	r.key = r.key&^0xff | (r.key+1)&0xff
	m := &FastRegMapping{Region: ci.Region{Addr: first, Length: mem.Len(), LKey: r.key, RKey: r.key}, pool: p, r: r}
	if access&ci.ZeroBased != 0 {
		m.Addr = 0
	}
	m.ext.FastReg = ci.FastReg{MR: r.mr, Pages: r.pages, PageShift: p.cfg.PageShift, Offset: uint32(first - r.pages[0]),
		Length: m.Length,
		IOVA:   m.Addr, Key: r.key, Access: access}
	return m, nil
}

// pagesOf appends the pages of ranges. Ranges must meet at page bounds: otherwise the pages would contain bytes that
// are not part of the memory.
func pagesOf(verb string, pages []uint64, ranges []ci.DMARange, cfg FastRegPoolConfig) ([]uint64, error) {
	size := uint64(1) << cfg.PageShift
	for i, d := range ranges {
		if i > 0 && d.Addr%size != 0 || i < len(ranges)-1 && (d.Addr+d.Size)%size != 0 {
			return pages, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the memory consists of pieces " +
				"that are not whole pages"}
		}
		for a := d.Addr &^ (size - 1); a < d.Addr+d.Size; a += size {
			if len(pages) == cfg.MaxPages {
				return pages, &ci.Error{Verb: verb, Status: ci.InvalidParameter,
					Detail: fmt.Sprintf("the memory has more than %d pages of %d bytes", cfg.MaxPages, size)}
			}
			pages = append(pages, a)
		}
	}
	if len(pages) == 0 {
		return pages, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the driver mapped no pages"}
	}
	return pages, nil
}

// Register returns the work request that registers the memory. Post it once, before the requests that use Region. ID
// and Flags are 0, and may be set. If it is not signaled, it completes only when it fails, with WCBindErr.
func (m *FastRegMapping) Register() ci.SendWR { return ci.SendWR{Op: ci.OpFastReg, Ext: &m.ext} }

// Invalidate returns the work request that invalidates the keys. Post it when no request that uses them is outstanding.
// It is signaled, since Unmap is allowed after its completion. ID is 0, and may be set. A peer may invalidate the keys
// instead (ci.SendInvalidate with RKey): then Unmap is allowed after a receive completion that names the key.
func (m *FastRegMapping) Invalidate() ci.SendWR {
	return ci.SendWR{Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: m.LKey}
}

// Unmap returns the region to the pool, after the keys were invalidated or if Register was not posted. It must not be
// called from a callback. Status: ResourceBusy (the driver reports that the registration is still valid; the mapping
// stays); InvalidHandle (returned before; with ErrClosed, the pool is destroyed).
func (m *FastRegMapping) Unmap() error { return m.giveBack("FastRegMapping.Unmap", m.pool.unmap) }

// Drop returns the region when the keys could not be invalidated, because the QP has failed. It destroys the region and
// with it the keys; the pool creates another one when it is needed. Drop must not be called from a callback. Status: as
// ci.MR.Destroy (then the mapping stays); InvalidHandle (returned before; with ErrClosed, the pool is destroyed).
func (m *FastRegMapping) Drop() error { return m.giveBack("FastRegMapping.Drop", m.pool.destroy) }

// giveBack calls end and returns the region to the pool. A second call fails.
func (m *FastRegMapping) giveBack(verb string, end func(*fastRegion) error) error {
	p := m.pool
	if err := p.n.enter(verb); err != nil {
		return err
	}
	defer p.n.leave()
	p.mu.Lock()
	was := m.returned
	m.returned = true
	p.mu.Unlock()
	if was {
		return &ci.Error{Verb: verb, Status: ci.InvalidHandle, Detail: "the mapping was returned before"}
	}
	if err := end(m.r); err != nil {
		p.mu.Lock()
		m.returned = false
		p.mu.Unlock()
		return err
	}
	p.takeBack(m.r)
	return nil
}

func (p *FastRegPool) takeBack(r *fastRegion) {
	p.mu.Lock()
	p.free = append(p.free, r)
	p.mu.Unlock()
}

// unmap removes the memory from the HCA's DMA space.
func (p *FastRegPool) unmap(r *fastRegion) error {
	if r.dma == nil {
		return nil
	}
	err := r.dma.Destroy()
	if err == nil {
		r.dma = nil
	}
	return err
}

// destroy destroys the region before the memory that it covers. After an error it may be called again.
func (p *FastRegPool) destroy(r *fastRegion) error {
	if r.mr != nil {
		if err := r.mr.Destroy(); err != nil {
			return err
		}
		r.mr = nil
	}
	return p.unmap(r)
}

// destroyAll destroys all regions. After an error of the driver it may be called again. No other method of the pool is
// running.
func (p *FastRegPool) destroyAll() error {
	for _, r := range p.all {
		if err := p.destroy(r); err != nil {
			return err
		}
	}
	return nil
}
