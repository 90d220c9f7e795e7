package rvt

import (
	"math"
	"slices"

	"ciddk/ci"
)

// RegisterPMR creates a region over DMA addresses.
func (d *PD) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	const verb = "PD.RegisterPMR"
	dev := d.dev
	switch {
	case !d.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle)
	case !dev.attr.Caps.Has(ci.CapPhysicalMR):
		return d.UnimplementedPD.RegisterPMR(c)
	case d.user != nil:
		return nil, failf(verb, ci.InvalidPermission, "the PD is that of a client process")
	}
	if err := dev.checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	p, err := dev.placePMR(verb, &c)
	if err != nil {
		return nil, err
	}
	return d.newMR(verb, p, c.Access, nil, 0)
}

// placePMR returns the place of a physical region. Its address has the offset in its page that the first byte has,
// because translation is by page. That is why the verb returns an address (IBTA volume 1, 11.2.8.3).
func (d *device) placePMR(verb string, c *ci.PMRCreate) (*place, error) {
	page := c.PageSize
	if !slices.Contains(d.attr.PageSizes, page) {
		return nil, failf(verb, ci.InvalidParameter, "PageSize is not one of CAAttr.PageSizes")
	}
	if len(c.Ranges) == 0 {
		return nil, failf(verb, ci.InvalidParameter, "no ranges")
	}
	var size uint64
	for _, r := range c.Ranges {
		switch {
		case r.Size == 0 || (r.Addr|r.Size)&(page-1) != 0:
			return nil, failf(verb, ci.InvalidParameter, "a range is empty or not on the bounds of PageSize")
		case r.Addr > math.MaxUint64-r.Size || size > math.MaxUint64-r.Size:
			return nil, failf(verb, ci.InvalidParameter, "the ranges wrap around")
		}
		size += r.Size
	}
	if c.Offset >= c.Ranges[0].Size || c.Length > size-c.Offset {
		return nil, failf(verb, ci.InvalidParameter, "Offset and Length are not inside the ranges")
	}
	va := c.IOVA&^(page-1) | c.Offset&(page-1)
	if err := d.checkRange(verb, va, c.Length); err != nil {
		return nil, err
	}
	var run dmaCollector
	defer run.done()
	skip, left := c.Offset, c.Length
	for _, r := range c.Ranges {
		n := min(r.Size-skip, left)
		if !run.add(&d.keys.dma, r.Addr+skip, n) {
			return nil, failf(verb, ci.InvalidParameter, "a range is not mapped by CA.MapDMA")
		}
		if left -= n; left == 0 {
			break
		}
		skip = 0
	}
	return run.place(va), nil
}

// ModifyPMR is Modify with DMA addresses. A virtual region may become a physical one.
func (m *MR) ModifyPMR(set ci.MRField, pd ci.PD, c ci.PMRCreate) error {
	const verb = "MR.ModifyPMR"
	if !m.dev.attr.Caps.Has(ci.CapModifyMR | ci.CapPhysicalMR) {
		return m.UnimplementedMR.ModifyPMR(set, pd, c)
	}
	return m.change(verb, set, pd, c.Access, func(ci.Access) (*place, error) { return m.dev.placePMR(verb, &c) })
}
