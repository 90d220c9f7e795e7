package rvt

import (
	"slices"

	"ciddk/ci"
)

// Fast registration (IBTA volume 1, 10.6.4 and 11.4.1): work requests map and unmap the storage of a region. Between an
// invalidation and the next OpFastReg, its key grants nothing.

// AllocFastRegMR creates a region without storage.
func (d *PD) AllocFastRegMR(maxPages int) (ci.MR, error) {
	const verb = "PD.AllocFastRegMR"
	dev := d.dev
	switch {
	case !d.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle)
	case !dev.attr.Caps.Has(ci.CapFastReg):
		return d.UnimplementedPD.AllocFastRegMR(maxPages)
	case maxPages < 1 || maxPages > dev.attr.MaxFastRegPages:
		return nil, failf(verb, ci.InvalidParameter, "maxPages is not in 1 to CAAttr.MaxFastRegPages")
	}
	return d.newMR(verb, nil, 0, nil, maxPages)
}

// fastReg executes OpFastReg. A failure leaves the region as it was. Status: WCBindErr.
func (d *device) fastReg(e *endpoint, w *WorkExt) ci.WCStatus {
	if w == nil {
		return ci.WCBindErr
	}
	m, f := w.MR, &w.FastReg
	if w.ByKey {
		m = d.keys.regionOf(f.Key)
	}
	if m == nil || m.maxPages == 0 || !m.slot.owns(f.Key) {
		return ci.WCBindErr
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.refs.Alive() || m.pd != e.pd || m.slot.now.Load() != nil { // a mapped region is invalidated first
		return ci.WCBindErr
	}
	var p *place
	if w.ByKey {
		p = d.placeStorage(f, w.Storage)
	} else {
		p = d.placeFast(m, f)
	}
	if p == nil {
		return ci.WCBindErr
	}
	if p.bytes.checkPersistent("QP.PostSend", f.Access) != nil {
		p.drop()
		return ci.WCBindErr
	}
	g := p.grant(f.Key, m.pd, f.Access)
	m.access = f.Access
	m.region.Store(g.region())
	m.slot.swap(g)
	return ci.WCSuccess
}

// placeFast returns the storage of a fast registration, or nil. Offset must equal the offset of the address in its
// page, unless the region is ZeroBased.
func (d *device) placeFast(m *MR, f *ci.FastReg) *place {
	const verb = "QP.PostSend"
	if !slices.Contains(d.attr.PageSizes, 1<<f.PageShift) || d.checkAccess(verb, f.Access) != nil {
		return nil
	}
	page := uint64(1) << f.PageShift
	count := uint64(len(f.Pages))
	off := uint64(f.Offset)
	switch {
	case count == 0 || count > uint64(m.maxPages) || off >= page,
		f.Length > count*page-off,
		f.Access&ci.ZeroBased == 0 && f.IOVA&(page-1) != off,
		d.checkRange(verb, f.IOVA, f.Length) != nil:
		return nil
	}
	var run dmaCollector
	defer run.done()
	skip, left := off, f.Length
	for _, a := range f.Pages {
		if a&(page-1) != 0 {
			return nil
		}
		n := min(page-skip, left)
		if n > 0 && !run.add(&d.keys.dma, a+skip, n) {
			return nil
		}
		left -= n
		skip = 0
	}
	return run.place(f.IOVA)
}

// placeStorage returns the storage of a fast registration whose driver has found it, or nil. The first byte of s is
// that of the region.
func (d *device) placeStorage(f *ci.FastReg, s ci.Memory) *place {
	const verb = "QP.PostSend"
	if ci.IsNil(s) || s.Len() < f.Length || d.checkAccess(verb, f.Access) != nil ||
		d.checkRange(verb, f.IOVA, f.Length) != nil {
		return nil
	}
	return &place{va: f.IOVA, length: f.Length, bytes: newStorage(extents(s, 0, f.Length))}
}

// regionOf returns the region that a key belongs to, whatever it grants at present, or nil.
func (k *keyTable) regionOf(key ci.Key) *MR {
	if s := k.slots.get(uint32(key) >> 8); s != nil {
		m, _ := s.owner.(*MR)
		return m
	}
	return nil
}

// invalidate implements keyOwner: it withdraws the mapping.
func (m *MR) invalidate(e *endpoint, key ci.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.refs.Alive() || m.maxPages == 0 || m.pd != e.pd || m.refs.Count() > 0 || m.region.Load().LKey != key {
		return false
	}
	m.slot.swap(nil)
	m.region.Store(&ci.Region{LKey: key, RKey: key})
	return true
}

// localInv executes OpLocalInv on a fast registration region, or on a type 2 window that was bound through e.
// Invalidating a region that grants nothing succeeds. Status: WCBindErr.
func (d *device) localInv(e *endpoint, key ci.Key) ci.WCStatus {
	if !d.keys.invalidate(e, key) {
		return ci.WCBindErr
	}
	return ci.WCSuccess
}
