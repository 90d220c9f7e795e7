package lnd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// pageShift is the page of registrations, 4 KiB: the smallest that every adapter has.
const pageShift = 12

// MaxTransfer is the most bytes of one PUT or GET: 256 pages.
const MaxTransfer = 1 << 20

// regPool lends fast registration regions: empty regions of MaxFrags pages each, which a work request fills, so that registering memory
// costs no trip to the driver. The pool grows as it is used, up to a limit, and regions stay in it.
//
// A transfer that we begin holds its region while it waits for one at the other end. If both ends spent all of theirs in that way, neither
// could answer the other. So transfers that we begin may have a part of the regions only, and those that peers begin, which wait for
// nothing once they have one, can have all.
type regPool struct {
	pd        *accesslayer.PD
	all, ours chan struct{} // what is lent
	back      chan struct{} // a token: something came back
	closed    chan struct{}

	mu     sync.Mutex
	idle   []*region
	lent   int
	ending bool
}

// region is one of the pool's.
type region struct {
	mr    *accesslayer.MR
	key   ci.Key           // of the last registration
	live  bool             // which is still good: the next one begins with an invalidation
	dma   *accesslayer.DMA // that it reaches
	pages []uint64
}

func newRegPool(pd *accesslayer.PD, limit int) *regPool {
	return &regPool{pd: pd, all: make(chan struct{}, limit), ours: make(chan struct{}, max(1, limit*3/4)),
		back: make(chan struct{}, 1), closed: make(chan struct{})}
}

// mapping is memory that a transfer works with: a lent region, and how to register the memory with it.
type mapping struct {
	*region
	state   mapState
	ours    bool
	exposed bool             // the peer writes; else it is our WRITEs' source
	dma     *accesslayer.DMA // of the memory
	ext     ci.SendExt
}

// mapState is what has become of a registration.
type mapState uint8

const (
	unposted    mapState = iota // nobody heard of it
	registered                  // its work request was posted, and everything that came of it went well
	invalidated                 // and undone
	doubtful                    // the queue pair died meanwhile
)

// get waits for a region, and prepares to register memory with it. Errors: the context's; net.ErrClosed; what the adapter says.
func (p *regPool) get(ctx context.Context, mem []byte, ours, exposed bool) (*mapping, error) {
	tokens := []chan struct{}{p.all}
	if ours {
		tokens = []chan struct{}{p.ours, p.all}
	}
	for i, t := range tokens {
		select {
		case t <- struct{}{}:
			continue
		case <-ctx.Done():
			ours = i > 0
		case <-p.closed:
			ours = i > 0
		}
		if ours {
			<-p.ours
		}
		return nil, fmt.Errorf("lnd: waiting for a fast registration region: %w", errors.Join(ctx.Err(), p.gone()))
	}
	r, err := p.take(ctx)
	if err == nil {
		var m *mapping
		if m, err = p.prepare(r, mem, ours, exposed); err == nil {
			return m, nil
		}
		p.keep(r)
	}
	p.free(ours)
	return nil, err
}

func (p *regPool) gone() error {
	select {
	case <-p.closed:
		return net.ErrClosed
	default:
		return nil
	}
}

// take gives an idle region or makes one; when the adapter has no more, it waits for one to come back.
func (p *regPool) take(ctx context.Context) (*region, error) {
	for {
		p.mu.Lock()
		if p.ending {
			p.mu.Unlock()
			return nil, net.ErrClosed
		}
		if n := len(p.idle); n > 0 {
			r := p.idle[n-1]
			p.idle = p.idle[:n-1]
			p.lent++
			p.mu.Unlock()
			return r, nil
		}
		p.lent++ // before the lock is released: whoever fails at the same time sees that it is not alone
		p.mu.Unlock()
		mr, err := p.pd.NewFastRegMR(MaxFrags)
		if err == nil {
			return &region{mr: mr, key: mr.Region().LKey, pages: make([]uint64, 0, MaxFrags)}, nil
		}
		p.mu.Lock()
		p.lent--
		others := p.lent > 0 || len(p.idle) > 0
		p.mu.Unlock()
		if !others || !outOf(err) {
			return nil, err
		}
		select {
		case <-p.back:
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
}

// outOf tells whether the adapter or the machine has no more of something.
func outOf(err error) bool {
	return errors.Is(err, ci.InsufficientResources) || errors.Is(err, ci.InsufficientMemory)
}

// prepare maps memory for the adapter's DMA, as any driver of an operating system would, and makes the request that registers it.
func (p *regPool) prepare(r *region, mem []byte, ours, exposed bool) (*mapping, error) {
	dma, err := p.pd.CA().NewDMA(ci.Bytes(mem))
	if err != nil {
		return nil, err
	}
	const page = 1 << pageShift
	first := dma.Ranges()[0].Addr
	r.pages = r.pages[:0]
	for _, d := range dma.Ranges() {
		for a := d.Addr &^ (page - 1); a < d.Addr+d.Size; a += page {
			r.pages = append(r.pages, a)
		}
	}
	m := &mapping{region: r, ours: ours, exposed: exposed, dma: dma}
	access := ci.Access(0)
	if exposed {
		access = ci.LocalWrite | ci.RemoteWrite
	}
	m.ext.FastReg = ci.FastReg{MR: r.mr, Pages: r.pages, PageShift: pageShift, Offset: uint32(first % page), Length: uint64(len(mem)),
		IOVA: first, Key: r.key&^0xff | (r.key+1)&0xff, Access: access}
	return m, nil
}

// chain is the work that goes in front of the first use: away with the region's last registration, and on with ours, under the next key.
// Nobody waits for it: requests of a queue are carried out in order.
func (m *mapping) chain() []ci.SendWR {
	reg := ci.SendWR{Op: ci.OpFastReg, Ext: &m.ext}
	if !m.live {
		return []ci.SendWR{reg}
	}
	return []ci.SendWR{{Op: ci.OpLocalInv, Inv: m.region.key}, reg}
}

// posted: the chain is in a send queue.
func (m *mapping) posted() { m.state = registered }

// desc is how a peer sees it: one piece, whatever its pages.
func (m *mapping) desc() Descriptor {
	f := m.ext.FastReg
	return Descriptor{Key: uint32(f.Key), Frags: []Frag{{Addr: f.IOVA, Len: uint32(f.Length)}}}
}

// put gives a mapping back; no work that uses it is under way. What only we could reach stays registered until the region is used again:
// an invalidation of its own would cost as much as it saves. (The memory is referenced for so long, which here only means that it is not garbage
// yet.) What a peer could write to must have been invalidated, or the region goes.
func (p *regPool) put(m *mapping) error {
	r := m.region
	var err error
	switch {
	case m.state == unposted:
		err = m.dma.Destroy()
	case m.state == invalidated:
		err = m.dma.Destroy()
		fallthrough
	case m.state == registered && !m.exposed:
		if r.dma != nil { // the registration before this one, which this one's chain invalidated
			err = errors.Join(err, r.dma.Destroy())
		}
		r.key, r.live, r.dma = m.ext.FastReg.Key, m.state == registered, nil
		if r.live {
			r.dma = m.dma
		}
	default:
		err = errors.Join(r.mr.Destroy(), m.dma.Destroy(), r.destroyDMA())
		r = nil
	}
	if r != nil && err == nil {
		p.keep(r)
	} else {
		p.mu.Lock()
		p.lent--
		p.mu.Unlock()
	}
	p.free(m.ours)
	return unlessGone(err)
}

func (r *region) destroyDMA() error {
	if r.dma == nil {
		return nil
	}
	return r.dma.Destroy()
}

// keep takes a region back.
func (p *regPool) keep(r *region) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent--
	p.idle = append(p.idle, r)
}

// free says that one less is lent.
func (p *regPool) free(ours bool) {
	<-p.all
	if ours {
		<-p.ours
	}
	select {
	case p.back <- struct{}{}:
	default:
	}
}

// close destroys the regions; all were given back. It is idempotent.
func (p *regPool) close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	if !p.ending {
		p.ending = true
		close(p.closed)
	}
	p.mu.Unlock()
	var errs []error
	for _, r := range idle {
		errs = append(errs, unlessGone(r.mr.Destroy()), unlessGone(r.destroyDMA()))
	}
	return errors.Join(errs...)
}

// unlessGone is for objects that the access layer may have destroyed before, with their adapter.
func unlessGone(err error) error {
	if errors.Is(err, accesslayer.ErrClosed) {
		return nil
	}
	return err
}
