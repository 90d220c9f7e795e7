package accesslayer

import (
	"fmt"
	"slices"
	"sync"

	"ciddk/ci"
)

// FastRegPoolConfig describes a pool. The regions are all made at once.
type FastRegPoolConfig struct {
	Size     int // regions, which is how many mappings there are at a time
	MaxPages int // of each. A length of n pages takes n+1, if the memory begins within a page
	// PageShift is log2 of the bytes of a page, which must be one of CAAttr.PageSizes. 0: 12, 4 KiB.
	PageShift uint8
}

// FastRegPool lends regions for fast registration (IBTA volume 1, 10.6.4 and 11.4.1): memory is put into one by a work request, in the queue
// of those that use it, and taken out by another, without a trip to the driver for keys. A mapping's way:
//
//	m, err := pool.Map(ci.Bytes(b), ci.LocalWrite|ci.RemoteWrite)    // maps the memory for DMA; a region of the pool, the next key
//	qp.PostSend([]ci.SendWR{m.Register(), tellPeer(m.Region)})       // requests are carried out in order: nobody waits in between
//	…                                                                // the peer is done
//	qp.PostSend([]ci.SendWR{m.Invalidate()})                         // when this has completed, the keys are dead
//	m.Unmap()                                                        // and the memory is the caller's again
//
// Where the QP has failed, nothing can be invalidated: then it is Drop in place of Unmap. Work requests are posted to QPs of the pool's PD. Each
// mapping of a region has another key, of 256, so one that is still somewhere opens nothing; regions are used in turn, the one that was given back
// first before others. The pool's destruction takes back what was not given back; destroy the QPs before.
type FastRegPool struct {
	object
	pd  *PD
	cfg FastRegPoolConfig
	all []*fastRegion

	mu   sync.Mutex
	free []*fastRegion // given back first, first
}

// fastRegion belongs to who has taken it from free.
type fastRegion struct {
	mr    ci.MR // nil: dropped, and to be made again
	dma   ci.DMA
	key   ci.Key // of the last mapping
	pages []uint64
}

// NewFastRegPool makes a pool. Status: InvalidParameter (sizes; PageShift that the HCA does not have), as ci.PD.AllocFastRegMR; InvalidState
// with ErrClosed.
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
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf("PageShift is %d, the HCA has pages of %v bytes", cfg.PageShift, sizes)}
	}
	pool := &FastRegPool{pd: p, cfg: cfg}
	pool.n = &node{kind: kindFastRegPool, obj: pool}
	err := pool.n.make(p.n, verb, func() (func() error, error) {
		for range cfg.Size {
			r := &fastRegion{}
			if err := pool.renew(r); err != nil {
				pool.n.undo = pool.destroyAll() != nil // then the reaper goes on with it
				return pool.destroyAll, err
			}
			pool.all = append(pool.all, r)
		}
		pool.free = slices.Clone(pool.all)
		return pool.destroyAll, nil
	})
	return made(pool, err)
}

// renew makes the region of r.
func (p *FastRegPool) renew(r *fastRegion) error {
	mr, err := p.pd.verbs.AllocFastRegMR(p.cfg.MaxPages)
	if err == nil {
		r.mr, r.key = mr, mr.Region().LKey
	}
	return err
}

// FastRegMapping is memory in a region of a pool. Region tells address and keys, which give nothing before Register's request has been carried
// out, and after Invalidate's. The address is that of the memory in the HCA's DMA space, with ci.ZeroBased 0.
type FastRegMapping struct {
	ci.Region
	pool     *FastRegPool
	r        *fastRegion
	ext      ci.SendExt
	returned bool // guarded by pool.mu
}

// Map takes a region for memory, which the caller must not let go before Unmap or Drop, and maps it for DMA. Not from a callback.
// Status: as ci.CA.MapDMA; InvalidParameter (nil, more than MaxPages, or memory whose pieces are not whole pages); InvalidPermission (remote write
// or atomic without LocalWrite); InsufficientResources (all regions are lent); as ci.PD.AllocFastRegMR, when a dropped one is to be replaced;
// InvalidHandle with ErrClosed.
func (p *FastRegPool) Map(mem ci.Memory, access ci.Access) (*FastRegMapping, error) {
	const verb = "FastRegPool.Map"
	switch {
	case ci.IsNil(mem):
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "there is no memory"}
	case access&(ci.RemoteWrite|ci.RemoteAtomic) != 0 && access&ci.LocalWrite == 0: // at the HCA this would end the connection
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidPermission, Detail: "remote write and atomic need LocalWrite"}
	}
	if err := p.n.enter(verb); err != nil {
		return nil, err
	}
	defer p.n.leave()
	p.mu.Lock()
	if len(p.free) == 0 {
		p.mu.Unlock()
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientResources, Detail: "every region of the pool is lent"}
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

// put puts memory into r.
func (p *FastRegPool) put(verb string, r *fastRegion, mem ci.Memory, access ci.Access) (*FastRegMapping, error) {
	if err := p.unmap(r); err != nil { // what was left when a Map failed halfway
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
	r.dma = dma // destroyed with the pool, if not before
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
	m.ext.FastReg = ci.FastReg{MR: r.mr, Pages: r.pages, PageShift: p.cfg.PageShift, Offset: uint32(first - r.pages[0]), Length: m.Length,
		IOVA: m.Addr, Key: r.key, Access: access}
	return m, nil
}

// pagesOf appends the pages of ranges. Between two ranges both must be at the bounds of pages, or bytes that belong to nobody would lie in between.
func pagesOf(verb string, pages []uint64, ranges []ci.DMARange, cfg FastRegPoolConfig) ([]uint64, error) {
	size := uint64(1) << cfg.PageShift
	for i, d := range ranges {
		if i > 0 && d.Addr%size != 0 || i < len(ranges)-1 && (d.Addr+d.Size)%size != 0 {
			return pages, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the memory is in pieces that are not whole pages"}
		}
		for a := d.Addr &^ (size - 1); a < d.Addr+d.Size; a += size {
			if len(pages) == cfg.MaxPages {
				return pages, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf("the memory has more than %d pages of %d bytes", cfg.MaxPages, size)}
			}
			pages = append(pages, a)
		}
	}
	if len(pages) == 0 {
		return pages, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: "the driver has mapped nothing"}
	}
	return pages, nil
}

// Register is the work request that registers the memory: post it once, in front of those that use Region. ID and Flags are 0, and may be
// set; unsignaled, it completes only if it fails, with WCBindErr.
func (m *FastRegMapping) Register() ci.SendWR { return ci.SendWR{Op: ci.OpFastReg, Ext: &m.ext} }

// Invalidate is the work request that makes the keys die: post it when no request that uses them is under way any more. It is signaled, since
// its completion is what permits Unmap; ID is 0, and may be set. A peer may do the same (ci.SendInvalidate with RKey): then the completion is that of
// the receive, if it names the key.
func (m *FastRegMapping) Invalidate() ci.SendWR {
	return ci.SendWR{Op: ci.OpLocalInv, Flags: ci.SendSignaled, Inv: m.LKey}
}

// Unmap gives the region back, for others: after the keys have died, or if Register was not posted. Not from a callback.
// Status: ResourceBusy (the registration is in force, and the driver has noticed: the mapping stays); InvalidHandle (given back before; pool
// destroyed, with ErrClosed).
func (m *FastRegMapping) Unmap() error { return m.giveBack("FastRegMapping.Unmap", m.pool.unmap) }

// Drop gives the region back when the keys could not be invalidated, because the QP has failed: the region is destroyed, with whatever the keys
// gave, and the pool makes another one when it is its turn. Not from a callback. Status: as ci.MR.Destroy (then the mapping stays); InvalidHandle
// (given back before; pool destroyed, with ErrClosed).
func (m *FastRegMapping) Drop() error { return m.giveBack("FastRegMapping.Drop", m.pool.destroy) }

// giveBack ends the mapping by end, once.
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
		return &ci.Error{Verb: verb, Status: ci.InvalidHandle, Detail: "given back before"}
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

// unmap takes the memory out of the HCA's DMA space.
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

// destroy destroys the region first: it stands on the memory. After a refusal it may be called again.
func (p *FastRegPool) destroy(r *fastRegion) error {
	if r.mr != nil {
		if err := r.mr.Destroy(); err != nil {
			return err
		}
		r.mr = nil
	}
	return p.unmap(r)
}

// destroyAll may be called again, after the driver has refused something. Nobody is within the pool.
func (p *FastRegPool) destroyAll() error {
	for _, r := range p.all {
		if err := p.destroy(r); err != nil {
			return err
		}
	}
	return nil
}
