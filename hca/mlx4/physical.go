package mlx4

import (
	"math"

	"ciddk/ci"
)

// RegisterPMR registers DMA addresses of MapDMA. Status: as RegisterMR; InvalidParameter for a page size that the
// adapter does not have, or ranges that are not mapped or not on its bounds; InvalidPermission for the PD of a process.
func (p *pd) RegisterPMR(c ci.PMRCreate) (ci.MR, error) {
	const verb = "PD.RegisterPMR"
	switch {
	case !p.refs.Alive():
		return nil, fail(verb, ci.InvalidPDHandle, "")
	case p.user != nil:
		return nil, fail(verb, ci.InvalidPermission, "the PD is that of a client process")
	}
	if err := checkAccess(verb, c.Access); err != nil {
		return nil, err
	}
	g, err := p.hca.placePhysical(verb, &c)
	if err != nil {
		return nil, err
	}
	return p.newMR(verb, g, c.Access)
}

// placePhysical returns a grant with the storage of DMA addresses. Its address has the offset in its page that the
// first byte has (IBTA volume 1, 11.2.8.3).
func (h *HCA) placePhysical(verb string, c *ci.PMRCreate) (*grant, error) {
	page := c.PageSize
	bad := func(detail string) (*grant, error) { return nil, fail(verb, ci.InvalidParameter, detail) }
	if page != pageSize {
		return bad("PageSize is not one of CAAttr.PageSizes")
	}
	if len(c.Ranges) == 0 {
		return bad("no ranges")
	}
	var size uint64
	for _, r := range c.Ranges {
		switch {
		case r.Size == 0 || (r.Addr|r.Size)&(page-1) != 0:
			return bad("a range is empty, or not on the bounds of PageSize")
		case r.Addr > math.MaxUint64-r.Size || size > math.MaxUint64-r.Size:
			return bad("the ranges wrap around")
		}
		size += r.Size
	}
	if c.Offset >= c.Ranges[0].Size || c.Length > size-c.Offset {
		return bad("Offset and Length are not inside the ranges")
	}
	va := c.IOVA&^(page-1) | c.Offset&(page-1)
	if err := checkRange(verb, va, c.Length); err != nil {
		return nil, err
	}
	g := &grant{region: ci.Region{Addr: va, Length: c.Length}}
	skip, left := c.Offset&^(page-1), c.Offset&(page-1)+c.Length
	for _, r := range c.Ranges {
		n := min(r.Size-skip, (left+page-1)&^(page-1))
		pages, _ := pagesOf([]ci.DMARange{{Addr: r.Addr + skip, Size: n}})
		list, ok := h.dmas.hold(r.Addr+skip, n)
		if !ok {
			g.drop()
			return bad("a range is not mapped by CA.MapDMA")
		}
		g.dmas = append(g.dmas, list...)
		g.pages = append(g.pages, pages...)
		if left -= min(n, left); left == 0 {
			break
		}
		skip = 0
	}
	return g, nil
}

// RegisterSMR registers the pages of src a second time. Status: InvalidMRHandle, InvalidPermission, InvalidParameter.
func (p *pd) RegisterSMR(src ci.MR, iova uint64, access ci.Access) (ci.MR, error) {
	const verb = "PD.RegisterSMR"
	if !p.refs.Alive() {
		return nil, fail(verb, ci.InvalidPDHandle, "")
	}
	s, ok := ci.As[*mr](src)
	if !ok || s.hca != p.hca || s.maxPages != 0 || !s.refs.Get() {
		return nil, fail(verb, ci.InvalidMRHandle, "src is not a region of this adapter that has memory")
	}
	g := s.sharedGrant()
	if err := checkAccess(verb, access); err != nil {
		g.drop()
		return nil, err
	}
	if iova != 0 {
		g.region.Addr = iova&^(pageSize-1) | g.region.Addr&(pageSize-1)
	}
	if err := checkRange(verb, g.region.Addr, g.region.Length); err != nil {
		g.drop()
		return nil, err
	}
	return p.newMR(verb, g, access)
}

// sharedGrant returns a grant with the storage of a region, which remains if Modify replaces that of the region. The
// grant takes over a reference on the region, which the caller has.
func (m *mr) sharedGrant() *grant {
	m.modify.Lock()
	defer m.modify.Unlock()
	g := m.now.Load().share()
	if g.source != nil {
		g.source.refs.Put() // m, which cannot be destroyed before, has one
	}
	g.source = m
	return g
}
