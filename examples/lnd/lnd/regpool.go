package lnd

import (
	"errors"

	"ciddk/accesslayer"
	"ciddk/ci"
)

const (
	pageShift = 12                         // of registrations, 4 KiB: the smallest page that every adapter has
	maxPages  = MaxTransfer>>pageShift + 1 // of a transfer that begins in the middle of one
)

// regPool lends fast registration regions. They are made once, empty, by a trip to the driver each; memory is put into them by work
// requests, which need none.
//
// The pool never runs dry, so nobody waits for a region (and who waits for one thing while holding another can wait for ever): a connection
// has 2*depth of them, our transfers are bounded by its slots, and the peer's by credits, which go back when their regions do.
type regPool struct {
	all, idle []*region
}

type region struct {
	number int
	mr     *accesslayer.MR
	op     *op              // who has it, nil: nobody
	posted bool             // the registration: before, no peer can know of it
	dma    *accesslayer.DMA // of the memory
	ext    ci.SendExt       // what the work request says of it
}

func (p *regPool) fill(pd *accesslayer.PD, n int) error {
	for i := range n {
		mr, err := pd.NewFastRegMR(maxPages)
		if err != nil {
			return err
		}
		r := &region{number: i, mr: mr}
		r.ext.FastReg = ci.FastReg{MR: mr, PageShift: pageShift, Key: mr.Region().LKey}
		p.all, p.idle = append(p.all, r), append(p.idle, r)
	}
	return nil
}

// lend gives o a region for memory, and returns the work request that registers it. It is posted in front of those that use it: requests of a
// queue are carried out in order, so nobody waits for it. Before, the memory is mapped for the adapter's DMA, as in any driver.
func (p *regPool) lend(ca *accesslayer.CA, o *op, mem []byte, access ci.Access) (wr ci.SendWR, err error) {
	r := p.idle[len(p.idle)-1]
	if r.dma, err = ca.NewDMA(ci.Bytes(mem)); err != nil {
		return wr, err
	}
	p.idle, r.op, r.posted, o.region = p.idle[:len(p.idle)-1], o, false, r
	f, first := &r.ext.FastReg, r.dma.Ranges()[0].Addr
	f.Pages = f.Pages[:0]
	for _, d := range r.dma.Ranges() {
		for a := d.Addr >> pageShift << pageShift; a < d.Addr+d.Size; a += 1 << pageShift {
			f.Pages = append(f.Pages, a)
		}
	}
	f.Offset, f.Length, f.IOVA, f.Access = uint32(first-f.Pages[0]), uint64(len(mem)), first, access
	f.Key = f.Key&^0xff | (f.Key+1)&0xff // another one each time: the key of before, wherever it still is, opens nothing
	return ci.SendWR{ID: wrChain, Op: ci.OpFastReg, Ext: &r.ext}, nil
}

// giveBack takes a region back whose registration was invalidated.
func (p *regPool) giveBack(r *region) error {
	r.op.region, r.op = nil, nil
	p.idle = append(p.idle, r)
	return r.dma.Close()
}

// close destroys the regions, those that are lent, too. The queue pair must have gone.
func (p *regPool) close() (err error) {
	for _, r := range p.all {
		if err = errors.Join(err, r.mr.Close()); r.op != nil {
			err = errors.Join(err, r.dma.Close())
		}
	}
	return err
}
