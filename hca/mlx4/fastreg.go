package mlx4

import (
	"ciddk/bus"
	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// maxFastRegPages is the most pages of a fast registration: those of a list of one page.
const maxFastRegPages = prm.ICMPageSize / prm.MTTSize

// list is the page list of a slot of a send queue, from its first fast registration on.
type list struct{ *bus.DMA }

// AllocFastRegMR creates a region without storage. Status: InvalidParameter, Unsupported, InvalidPDHandle,
// InsufficientResources.
func (p *pd) AllocFastRegMR(maxPages int) (_ ci.MR, err error) {
	const verb = "PD.AllocFastRegMR"
	h := p.hca
	switch {
	case !p.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle, "")
	case !h.claims.Has(ci.CapFastReg):
		return p.UnimplementedPD.AllocFastRegMR(maxPages)
	case maxPages < 1 || maxPages > maxFastRegPages:
		return nil, fail(verb, ci.InvalidParameter, "want 1 to MaxFastRegPages")
	}
	var u undo
	defer u.run(&err)
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	u.add(p.refs.Put)
	if err := h.mrs.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.mrs.Give)
	m := &mr{hca: h, owner: p, maxPages: maxPages}
	g := &grant{pd: p, face: p}
	index, e := h.mpts.take()
	if e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(func() { h.mpts.release(index) })
	if g.mtt, e = h.dev.AllocMTT(h.ctx, maxPages); e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(g.mtt.Free)
	if g.index, e = h.nextKeyIndex(index); e != nil {
		return nil, firmwareError(verb, e)
	}
	var b [64]byte
	g.encode(b[:])
	prm.MPTOwner.Put(b[:], prm.MPTOwnerFree)
	prm.MPTFastReg.Put(b[:], 1)
	prm.MPTRemoteOn.Put(b[:], 1)
	prm.MPTMTTCount.Put(b[:], uint64(maxPages))
	if e := h.cmd(prm.CmdSW2HWMPT, fw.Args{In: b[:], Modifier: h.mptModifier(g.index)}); e != nil {
		return nil, firmwareError(verb, e)
	}
	g.region.LKey = ci.Key(prm.KeyOf(g.index))
	g.region.RKey = g.region.LKey
	m.now.Store(g)
	return m, nil
}

// hasFastReg reports whether the region of an OpFastReg is valid.
func (q *qp) hasFastReg(wr *ci.SendWR) bool {
	if wr.Ext == nil {
		return false
	}
	m, ok := ci.As[*mr](wr.Ext.FastReg.MR)
	return ok && m.hca == q.hca && m.refs.Alive() && m.maxPages > 0
}

// putList writes the page list of a fast registration. A registration that the adapter must reject has no list.
func (q *qp) putList(wr *ci.SendWR) error {
	f := &wr.Ext.FastReg
	m, _ := ci.As[*mr](f.MR)
	g := m.now.Load()
	size := uint64(1) << (f.PageShift & 63)
	q.extra.List = 0
	switch {
	case f.PageShift != 12, checkAccess("", f.Access) != nil, len(f.Pages) == 0, len(f.Pages) > m.maxPages,
		f.Length == 0, uint64(f.Offset) >= size, f.IOVA%size != uint64(f.Offset), f.IOVA+f.Length < f.IOVA,
		uint64(f.Offset)+f.Length > uint64(len(f.Pages))*size,
		uint32(f.Key)>>8 != uint32(g.region.LKey)>>8, m.owner != q.pd, !areAligned(f.Pages, size):
		return nil
	}
	slot := q.sq.Slot()
	if q.lists == nil {
		q.lists = make([]list, q.sq.Slots())
	}
	l := &q.lists[slot]
	if l.DMA == nil {
		d, err := q.hca.dev.AllocBuffer(maxFastRegPages * prm.MTTSize)
		if err != nil {
			return sendErrors.Full
		}
		l.DMA = d
	}
	for i, p := range f.Pages {
		bigEndian.PutUint64(l.Bytes[i*prm.MTTSize:], p|1) // present
	}
	q.extra.List = l.IOVA
	next := *g
	next.access = f.Access
	next.region = ci.Region{Addr: f.IOVA, Length: f.Length, LKey: f.Key}
	if f.Access&remoteRights != 0 {
		next.region.RKey = f.Key
	}
	m.now.Store(&next)
	return nil
}

// areAligned reports whether all addresses are multiples of size, a power of two. The adapter ignores the bits below.
func areAligned(pages []uint64, size uint64) bool {
	for _, p := range pages {
		if p&(size-1) != 0 {
			return false
		}
	}
	return true
}

// freeLists releases the page lists of a QP that is destroyed.
func (h *HCA) freeLists(lists []list) {
	for _, l := range lists {
		if l.DMA != nil {
			_ = h.dev.FreeBuffer(l.DMA) // nothing uses it
		}
	}
}
