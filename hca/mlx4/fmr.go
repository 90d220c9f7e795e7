package mlx4

import (
	"math"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// Limits of FMRs.
const (
	maxFMRs       = 1 << 10
	maxMapsPerFMR = 32
	maxFMRPages   = prm.ICMPageSize / prm.MTTSize // all translations are in one page (linux mr.c, mlx4_fmr_alloc)
)

// fmr is a region whose entries in the tables of the adapter Map edits without a command. The adapter may have read the
// entries of earlier mappings, so that their keys grant access until UnmapFMRs. Their memory remains mapped as long.
type fmr struct {
	ci.UnimplementedFMR
	refs   driver.Refs
	pd     *pd
	hca    *HCA
	create ci.FMRCreate
	index  uint32 // of the MPT
	mtt    *fw.MTT
	flags  uint32 // dword 0 of the entry, without the owner

	mapping sync.Mutex // guards what follows
	keys    []uint32   // of the mappings since the last unmap: MPT indices with their upper bits
	dmas    []*dma     // of these mappings, each once
}

// AllocFMR creates a region without pages. Status: InvalidParameter, InvalidPermission (also for the PD of a process),
// Unsupported, InvalidPDHandle, InsufficientResources.
func (p *pd) AllocFMR(c ci.FMRCreate) (_ ci.FMR, err error) {
	const verb = "PD.AllocFMR"
	h := p.hca
	switch {
	case !p.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle, "")
	case p.user != nil:
		return nil, fail(verb, ci.InvalidPermission, "the PD is that of a client process")
	}
	if err := checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	switch {
	case c.PageShift >= 64 || 1<<c.PageShift != uint64(pageSize):
		return nil, fail(verb, ci.InvalidParameter, "the page size is not one of CAAttr.PageSizes")
	case c.MaxPages < 1 || c.MaxPages > maxFMRPages:
		return nil, fail(verb, ci.InvalidParameter, "MaxPages is not in 1 to 512")
	case c.MaxMaps < 1 || c.MaxMaps > maxMapsPerFMR:
		return nil, fail(verb, ci.InvalidParameter, "MaxMaps is not in 1 to CAAttr.MaxMapsPerFMR")
	}
	var u undo
	defer u.run(&err)
	if !p.refs.Get() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	u.add(p.refs.Put)
	if err := h.fmrs.Take(verb); err != nil {
		return nil, err
	}
	u.add(h.fmrs.Give)
	f := &fmr{pd: p, hca: h, create: c}
	var e error
	if f.index, e = h.mpts.take(); e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(func() { h.mpts.release(f.index) })
	if f.mtt, e = h.dev.AllocMTT(h.ctx, c.MaxPages); e != nil {
		return nil, firmwareError(verb, e)
	}
	u.add(f.mtt.Free)
	g := grant{pd: p, access: c.Access, mtt: f.mtt}
	if g.index, e = h.nextKeyIndex(f.index); e != nil {
		return nil, firmwareError(verb, e)
	}
	var b [64]byte
	g.encode(b[:]) // of no bytes, so that the first key grants nothing
	f.flags = bigEndian.Uint32(b[:]) &^ (0xf << 28)
	if e := h.cmd(prm.CmdSW2HWMPT, fw.Args{In: b[:], Modifier: f.index}); e != nil {
		return nil, firmwareError(verb, e)
	}
	return f, nil
}

// Map replaces the pages and returns the new keys (linux mr.c before 5.8, mlx4_map_phys_fmr). Status: InvalidParameter,
// InsufficientResources (mapped MaxMaps times), InvalidFMRHandle, InvalidState.
func (f *fmr) Map(pages []uint64, iova uint64) (_ ci.Region, err error) {
	const verb = "FMR.Map"
	f.mapping.Lock()
	defer f.mapping.Unlock()
	switch {
	case !f.refs.Alive():
		return ci.Region{}, fail(verb, ci.InvalidFMRHandle, "")
	case len(pages) == 0 || len(pages) > f.create.MaxPages:
		return ci.Region{}, fail(verb, ci.InvalidParameter, "the number of pages is not in 1 to MaxPages")
	case iova%pageSize != 0 || iova > math.MaxUint64-uint64(len(pages))*pageSize:
		return ci.Region{}, fail(verb, ci.InvalidParameter, "iova is not a multiple of the page size, or wraps around")
	case len(f.keys) >= f.create.MaxMaps:
		return ci.Region{}, fail(verb, ci.InsufficientResources, "mapped MaxMaps times since the last unmap")
	}
	for _, a := range pages {
		if a%pageSize != 0 {
			return ci.Region{}, fail(verb, ci.InvalidParameter, "a page is not on the bounds of its size")
		}
	}
	if e := f.hca.dev.Err(); e != nil {
		return ci.Region{}, firmwareError(verb, e)
	}
	old := len(f.dmas)
	defer func() {
		if err != nil {
			putDMAs(f.dmas[old:])
			f.dmas = f.dmas[:old]
		}
	}()
	for _, a := range pages {
		if !f.holdPage(a) {
			return ci.Region{}, fail(verb, ci.InvalidParameter, "a page is not mapped by CA.MapDMA")
		}
	}
	key, e := f.nextKey()
	if e == nil {
		e = f.enter(key, pages, iova)
	}
	if e != nil {
		return ci.Region{}, firmwareError(verb, e)
	}
	f.keys = append(f.keys, key)
	r := ci.Region{Addr: iova, Length: uint64(len(pages)) * pageSize, LKey: ci.Key(prm.KeyOf(key))}
	if f.create.Access&remoteRights != 0 {
		r.RKey = r.LKey
	}
	return r, nil
}

// holdPage takes a reference on the memory of a page, unless the FMR has one. mapping is held.
func (f *fmr) holdPage(page uint64) bool {
	list, ok := f.hca.dmas.hold(page, pageSize)
	for _, d := range list {
		if slices.Contains(f.dmas, d) {
			d.refs.Put()
		} else {
			f.dmas = append(f.dmas, d)
		}
	}
	return ok
}

// nextKey returns an MPT index with upper bits that no mapping since the last unmap has. mapping is held.
func (f *fmr) nextKey() (uint32, error) {
	for {
		if n, err := f.hca.nextKeyIndex(f.index); err != nil || !slices.Contains(f.keys, n) {
			return n, err
		}
	}
}

// enter writes a mapping to the tables of the adapter. The entry is not the adapter's while it changes.
func (f *fmr) enter(key uint32, pages []uint64, iova uint64) error {
	dev := f.hca.dev
	if err := dev.WithMPT(f.index, func(b []byte) { f.own(b, prm.MPTOwnerSW) }); err != nil {
		return err
	}
	if err := f.mtt.Write(0, pages); err != nil {
		return err
	}
	return dev.WithMPT(f.index, func(b []byte) {
		f.describe(b, key, iova, uint64(len(pages))*pageSize)
		f.own(b, prm.MPTOwnerHW)
	})
}

// describe writes the key and the addresses to the entry.
func (f *fmr) describe(b []byte, key uint32, iova, length uint64) {
	fw.Store32(b[prm.MPTIndex.Off:], key)
	fw.Store32(b[prm.MPTLKey.Off:], key)
	fw.Store64(b[prm.MPTStart.Off:], iova)
	fw.Store64(b[prm.MPTLength.Off:], length)
}

// own makes the entry the adapter's or the driver's.
func (f *fmr) own(b []byte, owner uint64) { fw.Store32(b, uint32(owner)<<28|f.flags) }

// UnmapFMRs invalidates the keys of all mappings of the regions. Status: InvalidFMRHandle (then none is unmapped),
// InvalidPDHandle.
func (p *pd) UnmapFMRs(fmrs []ci.FMR) error {
	const verb = "PD.UnmapFMRs"
	h := p.hca
	if !p.refs.Alive() {
		return fail(verb, ci.InvalidPDHandle, "")
	}
	var list []*fmr
	defer func() {
		for _, f := range list {
			f.refs.Done()
		}
	}()
	for _, o := range fmrs {
		f, ok := ci.As[*fmr](o)
		if ok && slices.Contains(list, f) {
			continue
		}
		if !ok || f.pd != p || !f.refs.Use() {
			return fail(verb, ci.InvalidFMRHandle, "an FMR is not one of this PD")
		}
		list = append(list, f)
	}
	h.unmapFMR.Lock()
	defer h.unmapFMR.Unlock()
	isMapped := false
	ends := make([]fmrEnd, len(list))
	for i, f := range list {
		n, err := f.takeBack()
		if err != nil {
			return firmwareError(verb, err)
		}
		ends[i] = n
		isMapped = isMapped || n.keys > 0
	}
	if !isMapped {
		return nil
	}
	if err := h.release(prm.CmdSyncTPT, fw.Args{}); err != nil {
		return firmwareError(verb, err)
	}
	for i, f := range list {
		f.forget(ends[i])
	}
	return nil
}

// fmrEnd is how many mappings, and how much memory of them, an FMR had when it was taken back from the adapter.
type fmrEnd struct{ keys, dmas int }

// takeBack makes the entry the driver's. The adapter may still use what it has read, until SYNC_TPT.
func (f *fmr) takeBack() (n fmrEnd, err error) {
	f.mapping.Lock()
	defer f.mapping.Unlock()
	n = fmrEnd{len(f.keys), len(f.dmas)}
	if n.keys > 0 && f.hca.dev.Err() == nil {
		err = f.hca.dev.WithMPT(f.index, func(b []byte) { f.own(b, prm.MPTOwnerSW) })
	}
	return n, err
}

// forget removes what the FMR had when it was taken back. Only one UnmapFMRs at a time calls it.
func (f *fmr) forget(n fmrEnd) {
	f.mapping.Lock()
	defer f.mapping.Unlock()
	f.keys = slices.Delete(f.keys, 0, n.keys)
	putDMAs(f.dmas[:n.dmas])
	f.dmas = slices.Delete(f.dmas, 0, n.dmas)
}

func putDMAs(list []*dma) {
	for _, d := range list {
		d.refs.Put()
	}
}

// Destroy frees the region. Status: ResourceBusy (mapped), InvalidFMRHandle.
func (f *fmr) Destroy() error {
	const verb = "FMR.Destroy"
	h := f.hca
	f.mapping.Lock()
	isMapped := f.refs.Alive() && len(f.keys) > 0
	var err error = fail(verb, ci.ResourceBusy, "unmap it first")
	if !isMapped {
		err = f.refs.BeginDestroy(verb, ci.InvalidFMRHandle)
	}
	f.mapping.Unlock()
	if err != nil {
		return err
	}
	err = f.handBack()
	if err == nil {
		err = h.release(prm.CmdHW2SWMPT, fw.Args{Modifier: f.index, OpModifier: 1})
	}
	if err != nil {
		f.refs.Revive()
		return firmwareError(verb, err)
	}
	h.mpts.release(f.index)
	f.mtt.Free()
	h.fmrs.Give()
	f.pd.refs.Put()
	return nil
}

// handBack makes the entry the adapter's again, with no bytes, since HW2SW_MPT expects that (linux mr.c before 5.8,
// mlx4_fmr_unmap). The FMR is not mapped, and cannot be any more.
func (f *fmr) handBack() error {
	if f.hca.dev.Err() != nil {
		return nil // the adapter does not use it any more
	}
	key, err := f.nextKey()
	if err != nil {
		return err
	}
	return f.hca.dev.WithMPT(f.index, func(b []byte) {
		f.describe(b, key, 0, 0)
		f.own(b, prm.MPTOwnerHW)
	})
}
