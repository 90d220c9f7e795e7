package rvt

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"ciddk/ci"
	"ciddk/ci/driver"
)

// FMR is a fast memory region: Map replaces its pages without waiting. The key of the previous mapping is invalid at
// once, but an access in progress may end later. UnmapFMRs waits for all accesses.
type FMR struct {
	ci.UnimplementedFMR
	refs   driver.Refs
	pd     *PD
	slot   *slot
	create ci.FMRCreate
	mu     sync.Mutex // before that of refs; Destroy holds it, too
	maps   int        // since the last unmap; with mu
}

// AllocFMR creates a region without pages.
func (d *PD) AllocFMR(c ci.FMRCreate) (ci.FMR, error) {
	const verb = "PD.AllocFMR"
	dev := d.dev
	switch {
	case !d.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle)
	case !dev.attr.Caps.Has(ci.CapFMR):
		return d.UnimplementedPD.AllocFMR(c)
	}
	if err := dev.checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains(dev.attr.PageSizes, 1<<c.PageShift):
		return nil, failf(verb, ci.InvalidParameter, "the page size is not one of CAAttr.PageSizes")
	case c.MaxPages < 1 || uint64(c.MaxPages) > dev.attr.MaxMRSize>>c.PageShift:
		return nil, failf(verb, ci.InvalidParameter, "MaxPages is below 1, or more than CAAttr.MaxMRSize")
	case c.MaxMaps < 1 || c.MaxMaps > dev.attr.MaxMapsPerFMR:
		return nil, failf(verb, ci.InvalidParameter, "MaxMaps is not in 1 to CAAttr.MaxMapsPerFMR")
	}
	if err := d.child(verb, kindFMR, dev.attr.MaxFMRs); err != nil {
		return nil, err
	}
	s, _, ok := dev.keys.reserve(nil)
	if !ok {
		d.unchild(kindFMR)
		return nil, failf(verb, ci.InsufficientResources, "no key is free")
	}
	f := &FMR{pd: d, slot: s, create: c}
	return f, nil
}

// Map replaces the pages and returns the new keys. The region is as long as the pages, or ends with the storage if that
// ends inside the last page.
func (f *FMR) Map(pages []uint64, iova uint64) (ci.Region, error) {
	const verb = "FMR.Map"
	dev := f.pd.dev
	page := uint64(1) << f.create.PageShift
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.refs.Alive():
		return ci.Region{}, fail(verb, ci.InvalidFMRHandle)
	case len(pages) == 0 || len(pages) > f.create.MaxPages:
		return ci.Region{}, failf(verb, ci.InvalidParameter, "the number of pages is not in 1 to MaxPages")
	case iova&(page-1) != 0 || iova > math.MaxUint64-uint64(len(pages))*page:
		return ci.Region{}, failf(verb, ci.InvalidParameter, "iova is not a multiple of the page size, or wraps around")
	case f.maps == f.create.MaxMaps:
		return ci.Region{}, failf(verb, ci.InsufficientResources, "mapped MaxMaps times since the last unmap")
	}
	var run dmaCollector
	defer run.done()
	for i, a := range pages {
		if a&(page-1) != 0 {
			return ci.Region{}, failf(verb, ci.InvalidParameter, "a page is not on the bounds of its size")
		}
		if n := run.upTo(&dev.keys.dma, a, page); n == 0 || n < page && i < len(pages)-1 {
			return ci.Region{}, failf(verb, ci.InvalidParameter, "a page is not mapped by CA.MapDMA")
		}
	}
	g := run.place(iova).grant(f.slot.fresh(), f.pd, f.create.Access)
	f.slot.swap(g)
	f.maps++
	return *g.region(), nil
}

// UnmapFMRs invalidates the keys of all regions and waits for accesses in progress.
func (d *PD) UnmapFMRs(fmrs []ci.FMR) error {
	const verb = "PD.UnmapFMRs"
	dev := d.dev
	switch {
	case !d.refs.Alive():
		return fail(verb, ci.InvalidPDHandle)
	case !dev.attr.Caps.Has(ci.CapFMR):
		return d.UnimplementedPD.UnmapFMRs(fmrs)
	}
	list := make([]*FMR, 0, len(fmrs))
	defer func() {
		for _, f := range list {
			f.refs.Put()
		}
	}()
	for i, o := range fmrs {
		f, ok := ci.As[*FMR](o)
		if !ok || f.pd != d || !f.refs.Get() {
			return handle(verb, ci.InvalidFMRHandle, fmt.Sprintf("fmrs[%d]", i), o)
		}
		list = append(list, f)
	}
	for _, f := range list {
		f.mu.Lock()
		f.slot.swap(nil)
		f.maps = 0
		f.mu.Unlock()
	}
	for _, f := range list {
		f.slot.wait()
	}
	return nil
}

// Destroy frees the region. It fails with ResourceBusy while the region is mapped.
func (f *FMR) Destroy() error {
	const verb = "FMR.Destroy"
	f.mu.Lock()
	err := f.refs.DestroyIf(verb, ci.InvalidFMRHandle, func() error {
		if f.slot.now.Load() != nil {
			return failf(verb, ci.ResourceBusy, "unmap it first")
		}
		return nil
	})
	f.mu.Unlock()
	if err != nil {
		return err
	}
	f.pd.dev.keys.release(f.slot)
	f.slot.wait()
	f.pd.unchild(kindFMR)
	return nil
}
