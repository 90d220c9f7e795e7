package cisuite

import (
	"fmt"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// mrFMRCases are the cases of regions that are mapped repeatedly without the firmware. (Headers: mlnx_fmr.)
var mrFMRCases = &validate.Area{Feature: validate.FeatureMROpt, Needs: validate.Needs{Caps: ci.CapFMR}}

// pageShift returns the binary logarithm of the smallest page size.
func pageShift(a *ci.CAAttr) uint8 {
	n := uint8(0)
	for p := smallPage(a); p > 1; p /= 2 {
		n++
	}
	return n
}

// fmrStage is an FMR and pages for it.
type fmrStage struct {
	ci.FMR
	mem   []byte
	dma   ci.DMA
	pages []uint64
	page  uint64
}

// newFMR returns an FMR for up to n pages and maps, and n pages of memory.
func newFMR(t *validate.T, ca *kit.CA, pd ci.PD, n, maps int, a ci.Access) *fmrStage {
	page := smallPage(ca.Attr)
	f, err := pd.AllocFMR(ci.FMRCreate{MaxPages: n, MaxMaps: maps, PageShift: pageShift(ca.Attr), Access: a})
	kit.OK(t, err, "PD.AllocFMR")
	s := &fmrStage{FMR: f, page: page, mem: kit.Pages(n*int(page), int(page))}
	s.dma = ca.DMA(s.mem)
	s.pages = kit.PageList(s.dma.Ranges(), page)
	kit.Equal(t, "whole pages that CA.MapDMA maps", len(s.pages), n)
	kit.Own(t, f, "FMR")
	t.Cleanup(func() { _ = pd.UnmapFMRs([]ci.FMR{f}) }) // fails if the case has destroyed the FMR
	return s
}

// mapped maps pages and expects success.
func (s *fmrStage) mapped(t *validate.T, pages []uint64, iova uint64) ci.Region {
	r, err := s.Map(pages, iova)
	kit.OK(t, err, fmt.Sprintf("FMR.Map of %d pages", len(pages)))
	return r
}

var _ = mrFMRCases.Add("mr.fmr.refused", "invalid counts, page sizes and access rights", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	good := ci.FMRCreate{MaxPages: 4, MaxMaps: 1, PageShift: pageShift(ca.Attr), Access: kit.AllAccess}
	for _, x := range kit.Variants(t, "", []struct {
		what string
		f    func(*ci.FMRCreate)
		want ci.Status
	}{
		{"no pages", func(c *ci.FMRCreate) { c.MaxPages = 0 }, ci.InvalidParameter},
		{"a negative page count", func(c *ci.FMRCreate) { c.MaxPages = -1 }, ci.InvalidParameter},
		{"no maps", func(c *ci.FMRCreate) { c.MaxMaps = 0 }, ci.InvalidParameter},
		{"more maps than MaxMapsPerFMR", func(c *ci.FMRCreate) { c.MaxMaps = ca.Attr.MaxMapsPerFMR + 1 },
			ci.InvalidParameter},
		{"pages smaller than the smallest page size", func(c *ci.FMRCreate) { c.PageShift-- }, ci.InvalidParameter},
		{"pages of 2^64 bytes", func(c *ci.FMRCreate) { c.PageShift = 64 }, ci.InvalidParameter},
		{"remote write without local write", func(c *ci.FMRCreate) { c.Access = ci.RemoteWrite }, ci.InvalidPermission},
	}) {
		c := good
		x.f(&c)
		f, err := pd.AllocFMR(c)
		kit.WantRefused(t, f, err, "PD.AllocFMR with "+x.what, x.want)
	}
}, mrFMRCases.Must("CI-AllocFMR-01", "CI FMR", "ci_alloc_mlnx_fmr (44)",
	"Page or map counts that are 0 or above the limits, an unsupported page size, and invalid access rights are "+
		"rejected."))

var ciMapFMR01 = mrFMRCases.Must("CI-MapFMR-01", "CI FMR", "ci_map_phys_mlnx_fmr (45)",
	"A mapped FMR grants access to its pages, in their order and with its access rights, and to nothing else.")

var _ = mrFMRCases.Add("mr.fmr.use", "map, write, read, receive", fmrUse, ciMapFMR01, req.SAS2_3_17)

func fmrUse(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	f := newFMR(t, p.B.CA, p.B.PD, 4, 1, kit.AllAccess)
	back := slices.Clone(f.pages)
	slices.Reverse(back)
	r := f.mapped(t, back, 0x40000)
	kit.Equal(t, "Region.Addr", r.Addr, 0x40000)
	kit.Equal(t, "Region.Length", r.Length, 4*f.page)
	src := kit.Random(t, p.A.Buf.Bytes[:4*f.page])
	p.WantReach("RDMA WRITE to a mapped FMR", ci.OpWrite, len(src), r.Remote(0))
	p.Fence()
	for i := range uint64(4) {
		kit.SameBytes(t, fmt.Sprintf("page %d of the FMR", i), f.mem[(3-i)*f.page:(4-i)*f.page],
			src[i*f.page:(i+1)*f.page])
	}
	p.WantDenied("RDMA WRITE of the byte after a mapped FMR", ci.OpWrite, 1, r.Remote(4*f.page))
	p.WantDenied("RDMA WRITE from the byte before a mapped FMR", ci.OpWrite, 1, r.Remote(^uint64(0)))
	msg := kit.Random(t, p.A.Buf.Bytes[:100])
	p.B.Recv(ci.RecvWR{ID: 1, SGL: []ci.SGE{r.SGE(0, 100)}})
	p.A.Send(p.A.SendWR(1, 0, 100))
	p.A.CQ.WaitOK(1)
	p.B.RecvCQ.WaitOK(1)
	kit.SameBytes(t, "message received with the L_Key of a mapped FMR", f.mem[3*f.page:3*f.page+100], msg)
	kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
}

var _ = mrFMRCases.Add("mr.fmr.rights", "access rights and operations", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	for _, a := range kit.Variants(t, "access", rightsOf(t.Attr())) {
		if illegal(a) {
			continue
		}
		f := newFMR(t, p.B.CA, p.B.PD, 1, 1, a)
		r := f.mapped(t, f.pages, 0x40000)
		probeRights(p, "an FMR with "+rightNames(a), ci.Remote{Addr: r.Addr, RKey: keyFor(r, a)}, a)
		kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
		kit.Destroy(t, f.FMR, "FMR")
	}
}, ciMapFMR01)

var ciMapFMR02 = mrFMRCases.Must("CI-MapFMR-02", "CI FMR", "ci_map_phys_mlnx_fmr (45)",
	"An FMR can be mapped MaxMaps times between unmaps. One more Map fails with InsufficientResources.")

var _ = mrFMRCases.Add("mr.fmr.maps", "map as often as permitted, and once more", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	maps := min(64, t.Attr().MaxMapsPerFMR)
	f := newFMR(t, p.B.CA, p.B.PD, 2, maps, kit.AllAccess)
	for round := range 2 {
		var r ci.Region
		for i := range maps {
			page := f.pages[i%2 : i%2+1]
			r = f.mapped(t, page, 0x40000)
			at := f.mem[uint64(i%2)*f.page:]
			p.WantWrite(fmt.Sprintf("the page of map %d in round %d", i+1, round+1), r.Remote(0), at[:64])
		}
		_, err := f.Map(f.pages[:1], 0x40000)
		kit.Want(t, err, fmt.Sprintf("FMR.Map number %d with MaxMaps %d", maps+1, maps), ci.InsufficientResources)
		at := f.mem[uint64((maps-1)%2)*f.page:]
		p.WantWrite("the page mapped last, after the rejected FMR.Map", r.Remote(0), at[:64])
		kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
	}
}, ciMapFMR02)

var _ = mrFMRCases.Add("mr.fmr.pages", "too many pages, none, and unaligned ones", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	f := newFMR(t, ca, pd, 3, 1, kit.AllAccess)
	small, err := pd.AllocFMR(ci.FMRCreate{
		MaxPages:  2,
		MaxMaps:   1,
		PageShift: pageShift(ca.Attr),
		Access:    kit.AllAccess,
	})
	kit.OK(t, err, "PD.AllocFMR")
	kit.Own(t, small, "FMR")
	unaligned := slices.Clone(f.pages[:2])
	unaligned[1] += 8
	for _, x := range kit.Variants(t, "", []struct {
		what  string
		pages []uint64
		iova  uint64
	}{
		{"three pages for an FMR of two", f.pages, 0x40000},
		{"no pages", nil, 0x40000},
		{"a page address that is not page-aligned", unaligned, 0x40000},
		{"an IOVA that is not page-aligned", f.pages[:1], 0x40008},
		{"a page that is not mapped", []uint64{f.pages[0], 1 << 62}, 0x40000},
		{"only a page that is not mapped", []uint64{1 << 62}, 0x40000},
		{"addresses that wrap around", f.pages[:2], -smallPage(ca.Attr)},
	}) {
		_, err := small.Map(x.pages, x.iova)
		kit.Want(t, err, "FMR.Map with "+x.what, ci.InvalidParameter)
	}
	// A rejected Map does not count as a map and leaves the FMR unmapped.
	_, err = small.Map(f.pages[:2], 0x40000)
	kit.OK(t, err, "FMR.Map after rejected calls")
	kit.OK(t, pd.UnmapFMRs([]ci.FMR{small}), "PD.UnmapFMRs")
}, mrFMRCases.Must("CI-MapFMR-03", "CI FMR", "ci_map_phys_mlnx_fmr (45)",
	"No pages, more than MaxPages, or a page or address that is not page-aligned fail with InvalidParameter."))

var _ = mrFMRCases.Add("mr.fmr.unmap", "unmap a batch", fmrUnmap,
	mrFMRCases.Must("CI-UnmapFMR-01", "CI FMR", "ci_unmap_mlnx_fmr (46)",
		"After UnmapFMRs the keys of all FMRs of the batch grant no access, and each FMR can be mapped MaxMaps times "+
			"again."), ciMapFMR02)

func fmrUnmap(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	var list []ci.FMR
	var stages []*fmrStage
	var regions []ci.Region
	for range 3 {
		f := newFMR(t, p.B.CA, p.B.PD, 1, 1, kit.AllAccess)
		r := f.mapped(t, f.pages, 0x40000)
		p.WantWrite("a mapped FMR", r.Remote(0), f.mem[:64])
		list, stages, regions = append(list, f.FMR), append(stages, f), append(regions, r)
	}
	kit.OK(t, p.B.PD.UnmapFMRs(list[:2]), "PD.UnmapFMRs of two of three")
	for i, f := range stages[:2] {
		p.WantUntouched(fmt.Sprintf("FMR %d of the unmapped batch", i+1), regions[i].Remote(0), f.mem[:64])
		r := f.mapped(t, f.pages, 0x80000)
		p.WantWrite("an FMR mapped again", r.Remote(0), f.mem[:64])
		p.WantUntouched("an FMR mapped again, with the previous key", ci.Remote{Addr: r.Addr, RKey: regions[i].RKey},
			f.mem[:64])
	}
	p.WantWrite("the FMR outside the batch", regions[2].Remote(0), stages[2].mem[:64])
	for i, f := range stages[:2] {
		kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
		regions[i] = f.mapped(t, f.pages, 0x40000)
	}
	kit.OK(t, p.B.PD.UnmapFMRs(list), "PD.UnmapFMRs of all FMRs")
	for i, f := range stages {
		p.WantUntouched(fmt.Sprintf("FMR %d of the batch of all FMRs", i+1), regions[i].Remote(0), f.mem[:64])
	}
	kit.OK(t, p.B.PD.UnmapFMRs(nil), "PD.UnmapFMRs of an empty batch")
}

var _ = mrFMRCases.Add("mr.fmr.unmap-gone", "unmap a batch with a destroyed FMR", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	f, old := newFMR(t, p.B.CA, p.B.PD, 1, 1, kit.AllAccess), newFMR(t, p.B.CA, p.B.PD, 1, 1, kit.AllAccess)
	kit.Destroy(t, old.FMR, "FMR")
	r := f.mapped(t, f.pages, 0x40000)
	for _, list := range [][]ci.FMR{{f.FMR, old.FMR}, {old.FMR, f.FMR}} {
		kit.WantExactly(t, p.B.PD.UnmapFMRs(list), "PD.UnmapFMRs of a batch with a destroyed FMR", ci.InvalidFMRHandle)
		p.WantWrite("the other FMR of the batch", r.Remote(0), f.mem[:64])
	}
	kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
}, mrFMRCases.Must("CI-UnmapFMR-02", "CI FMR", "ci_unmap_mlnx_fmr (46)",
	"UnmapFMRs of a batch with a destroyed FMR fails with InvalidFMRHandle and unmaps none of them."))

var ciDeallocFMR01 = mrFMRCases.Must("CI-DeallocFMR-01", "CI FMR", "ci_dealloc_mlnx_fmr (47)",
	"Destroy of a mapped FMR fails with ResourceBusy, and of a destroyed FMR with InvalidFMRHandle.")

var _ = mrFMRCases.Add("mr.fmr.busy", "deallocate a mapped FMR", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	f := newFMR(t, p.B.CA, p.B.PD, 1, 1, kit.AllAccess)
	r := f.mapped(t, f.pages, 0x40000)
	kit.WantExactly(t, f.Destroy(), "FMR.Destroy of a mapped FMR", ci.ResourceBusy)
	p.WantWrite("the FMR after the rejected Destroy", r.Remote(0), f.mem[:64])
	kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
	kit.DestroyTwice(t, f.FMR, "FMR", ci.InvalidFMRHandle)
	_, err := f.Map(f.pages, 0x40000)
	kit.WantExactly(t, err, "FMR.Map after Destroy", ci.InvalidFMRHandle)
}, ciDeallocFMR01, req.SAS2_3_26)

var _ = mrFMRCases.Add("mr.fmr.dma-busy", "unmap the DMA mapping of a mapped FMR", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	f := newFMR(t, p.B.CA, p.B.PD, 1, 1, kit.AllAccess)
	r := f.mapped(t, f.pages, 0x40000)
	kit.WantExactly(t, f.dma.Destroy(), "DMA.Destroy while an FMR maps it", ci.ResourceBusy)
	p.WantWrite("the FMR after the rejected DMA.Destroy", r.Remote(0), f.mem[:64])
	kit.OK(t, p.B.PD.UnmapFMRs([]ci.FMR{f.FMR}), "PD.UnmapFMRs")
	kit.Destroy(t, f.dma, "DMA that no FMR uses")
}, ciMapDMA01)
