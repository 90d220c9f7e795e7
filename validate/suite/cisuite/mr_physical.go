package cisuite

import (
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// mrPhysicalCases are the cases of regions over DMA addresses. (IBTA 11.2.8; the mapping is part of this kit.)
var mrPhysicalCases = &validate.Area{Feature: validate.FeatureMROpt, Needs: validate.Needs{Caps: ci.CapPhysicalMR}}

// largestPage is the largest page size that a case uses.
const largestPage = 4 << 20

var _ = mrPhysicalCases.Add("mr.physical.pages", "each page size", func(t *validate.T) {
	p := kit.RC(t, kit.Size(16<<10))
	for _, size := range kit.Variants(t, "page size", t.Attr().PageSizes) {
		if size > largestPage {
			t.Note("pages of %d bytes are not tested", size)
			continue
		}
		mem := kit.Pages(int(2*size), int(size))
		d := p.B.CA.DMA(mem)
		if kit.PageList(d.Ranges(), size) == nil {
			kit.True(t, size != smallPage(t.Attr()), "DMA.Ranges of memory aligned to the smallest page size",
				"ranges with the same alignment", "%v", d.Ranges())
			t.Note("ordinary memory does not consist of pages of %d bytes", size)
			continue
		}
		what := fmt.Sprintf("a region with pages of %d bytes", size)
		mr, err := p.B.PD.RegisterPMR(ci.PMRCreate{
			Ranges:   d.Ranges(),
			PageSize: size,
			Length:   2 * size,
			IOVA:     4 * size,
			Access:   kit.AllAccess,
		})
		kit.OK(t, err, "PD.RegisterPMR of "+what)
		kit.Own(t, mr, "PMR")
		r := mr.Region()
		kit.Equal(t, "Region.Length of "+what, r.Length, 2*size)
		if r.Addr != 4*size {
			t.Note("a physical region does not have the requested IOVA")
		}
		wantQuery(t, mr, p.B.PD, kit.AllAccess)
		n := min(size, 5000)
		p.WantWrite(what+", its start", r.Remote(0), mem[:n])
		p.WantWrite(what+", around the middle", r.Remote(size-n/2), mem[size-n/2:size-n/2+n])
		p.WantWrite(what+", its end", r.Remote(2*size-n), mem[2*size-n:])
		p.WantDenied("RDMA WRITE of the byte after "+what, ci.OpWrite, 1, r.Remote(2*size))
		kit.Destroy(t, mr, "PMR")
		kit.Destroy(t, d, "DMA")
	}
}, req.SAS2_3_14, ciRegisterPMR02)

var ciRegisterPMR02 = mrPhysicalCases.Must("CI-RegisterPMR-02", "IBTA 11.2.8", "ci_register_pmr (38)",
	"A physical region covers its ranges in their order, from the given offset and with the given length.")

var _ = mrPhysicalCases.Add("mr.physical.offset", "offsets in the first range, odd lengths", mrPhysicalOffset,
	ciRegisterPMR02)

func mrPhysicalOffset(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	page := smallPage(t.Attr())
	mem := kit.Pages(int(4*page), int(page))
	d := p.B.CA.DMA(mem)
	for i, x := range kit.Variants(t, "",
		[]struct{ off, n uint64 }{{0, 1}, {1, page}, {page - 1, 2}, {7, 4*page - 7}, {page / 2, 3 * page}}) {
		iova := uint64(i) * 24 // the offset of the bytes in their page counts, and not that of the IOVA
		what := fmt.Sprintf("a region of %d bytes from offset %d of the pages on", x.n, x.off)
		mr, err := p.B.PD.RegisterPMR(ci.PMRCreate{
			Ranges:   d.Ranges(),
			PageSize: page,
			Offset:   x.off,
			Length:   x.n,
			IOVA:     0x40000 + x.off + iova,
			Access:   kit.AllAccess,
		})
		kit.OK(t, err, "PD.RegisterPMR of "+what)
		kit.Own(t, mr, "PMR")
		r := mr.Region()
		kit.Equal(t, "Region.Length of "+what, r.Length, x.n)
		kit.Equal(t, "Region.Addr of "+what+", in its page", r.Addr%page, x.off%page)
		p.WantWrite(what, r.Remote(0), mem[x.off:x.off+x.n])
		p.WantDenied("RDMA WRITE from the byte before "+what, ci.OpWrite, 1, r.Remote(^uint64(0)))
		p.WantDenied("RDMA WRITE of the byte after "+what, ci.OpWrite, 1, r.Remote(x.n))
		kit.Destroy(t, mr, "PMR")
	}
}

// The case registers parts of memory that has no single view, around the bounds of its pieces.
var _ = mrPhysicalCases.Add("mr.physical.pieces", "DMA addresses of memory in extents", func(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	page := smallPage(t.Attr())
	mem := kit.Pages(int(4*page), int(page))
	piece := page / 4 * 3
	d, err := p.B.CA.MapDMA(kit.PiecedMemory{Memory: ci.Bytes(mem), Piece: piece})
	if err != nil {
		kit.WantRefused(t, d, err, "CA.MapDMA of memory in pieces", ci.InvalidParameter)
		t.Note("memory in pieces is rejected")
		return
	}
	kit.Own(t, d, "DMA")
	for _, x := range kit.Variants(t, "", []struct{ off, n uint64 }{{0, 4 * page}, {5, page}, {piece - 1, 2},
		{piece, piece}, {piece + 1, 2*piece + 7}, {page - 3, 2 * page}}) {
		what := fmt.Sprintf("a region of %d bytes from offset %d of memory in pieces on", x.n, x.off)
		mr, err := p.B.PD.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Offset: x.off, Length: x.n,
			IOVA: 0x40000 + x.off, Access: kit.AllAccess})
		kit.OK(t, err, "PD.RegisterPMR of "+what)
		kit.Own(t, mr, "PMR")
		at := mem[x.off : x.off+x.n]
		p.WantWrite(what, mr.Region().Remote(0), at)
		kit.Random(t, at)
		clear(p.A.Buf.Bytes)
		p.WantReach("RDMA READ from "+what, ci.OpRead, len(at), mr.Region().Remote(0))
		kit.SameBytes(t, "bytes read from "+what, p.A.Buf.Bytes[:len(at)], at)
		kit.Destroy(t, mr, "PMR")
	}
	kit.Destroy(t, d, "DMA of memory in pieces")
}, ciRegisterPMR02)

var _ = mrPhysicalCases.Add("mr.physical.ranges", "ranges of two mappings, in both orders", func(t *validate.T) {
	p := kit.RC(t, kit.Size(64<<10))
	page := smallPage(t.Attr())
	one, two := kit.Pages(int(page), int(page)), kit.Pages(int(3*page), int(page))
	d1, d2 := p.B.CA.DMA(one), p.B.CA.DMA(two)
	for _, first := range kit.Variants(t, "first", []bool{true, false}) {
		ranges := append(append([]ci.DMARange(nil), d1.Ranges()...), d2.Ranges()...)
		a, b := one, two
		if !first {
			ranges = append(append([]ci.DMARange(nil), d2.Ranges()...), d1.Ranges()...)
			a, b = two, one
		}
		mr, err := p.B.PD.RegisterPMR(ci.PMRCreate{
			Ranges:   ranges,
			PageSize: page,
			Length:   4 * page,
			Access:   kit.AllAccess,
		})
		kit.OK(t, err, "PD.RegisterPMR of two mappings")
		kit.Own(t, mr, "PMR")
		src := kit.Random(t, p.A.Buf.Bytes[:4*page])
		p.WantReach("RDMA WRITE over two mappings", ci.OpWrite, int(4*page), mr.Region().Remote(0))
		p.Fence()
		kit.SameBytes(t, "first mapping", a, src[:len(a)])
		kit.SameBytes(t, "second mapping", b, src[len(a):])
		kit.Destroy(t, mr, "PMR")
	}
}, ciRegisterPMR02, req.SAS2_3_14)

var _ = mrPhysicalCases.Add("mr.physical.refused", "invalid page sizes, alignments and lengths", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	page := smallPage(ca.Attr)
	mem := kit.Pages(int(4*page), int(page))
	d := ca.DMA(mem)
	good := ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Length: 4 * page, Access: kit.AllAccess}
	last := len(good.Ranges) - 1
	change := func(f func(*ci.DMARange)) []ci.DMARange {
		out := append([]ci.DMARange(nil), good.Ranges...)
		f(&out[last])
		return out
	}
	for _, x := range kit.Variants(t, "", []struct {
		what string
		f    func(*ci.PMRCreate)
	}{
		{"page size 0", func(c *ci.PMRCreate) { c.PageSize = 0 }},
		{"half of the smallest page size", func(c *ci.PMRCreate) { c.PageSize /= 2 }},
		{"a page size that is not a power of two", func(c *ci.PMRCreate) { c.PageSize += 512 }},
		{"a range that starts inside a page",
			func(c *ci.PMRCreate) { c.Ranges = change(func(r *ci.DMARange) { r.Addr += 8 }) }},
		{"a range that ends inside a page",
			func(c *ci.PMRCreate) { c.Ranges = change(func(r *ci.DMARange) { r.Size -= 8 }) }},
		{"a range that starts one byte inside a page", func(c *ci.PMRCreate) {
			c.Ranges = change(func(r *ci.DMARange) { r.Addr, r.Size = r.Addr+1, max(r.Size-page, page) })
			c.Length = page
		}},
		{"a range that ends one byte inside a page", func(c *ci.PMRCreate) {
			c.Ranges = change(func(r *ci.DMARange) { r.Size = max(r.Size-page, page) + 1 })
			c.Length = page
		}},
		{"no range", func(c *ci.PMRCreate) { c.Ranges = nil }},
		{"a length beyond the end of the ranges", func(c *ci.PMRCreate) { c.Length++ }},
		{"offset and length beyond the end of the ranges", func(c *ci.PMRCreate) { c.Offset = 1 }},
		{"an offset after the end of the ranges", func(c *ci.PMRCreate) { c.Offset, c.Length = 4*page, 1 }},
		{"a length that wraps around", func(c *ci.PMRCreate) { c.Offset, c.Length = 8, ^uint64(0)-3 }},
		{"an unknown access right", func(c *ci.PMRCreate) { c.Access |= 1 << 20 }},
		{"no bytes", func(c *ci.PMRCreate) { c.Length = 0 }},
		{"an empty range", func(c *ci.PMRCreate) { c.Ranges = change(func(r *ci.DMARange) { r.Size = 0 }) }},
		{"an empty range behind the others", func(c *ci.PMRCreate) {
			c.Ranges = append(change(func(*ci.DMARange) {}), ci.DMARange{Addr: good.Ranges[last].Addr})
		}},
		{"a range that is not mapped",
			func(c *ci.PMRCreate) { c.Ranges = change(func(r *ci.DMARange) { r.Addr = 1 << 62 }) }},
		{"a range at address 0, below all mappings", func(c *ci.PMRCreate) {
			c.Ranges, c.Length = []ci.DMARange{{Size: page}}, page
		}},
		{"a range of more pages than are mapped", func(c *ci.PMRCreate) {
			c.Ranges = change(func(r *ci.DMARange) { r.Size += page })
			c.Length += page
		}},
		{"a range that wraps around the address space", func(c *ci.PMRCreate) {
			c.Ranges, c.Length = []ci.DMARange{{Addr: -page, Size: 2 * page}}, page
		}},
		{"ranges of 2^64 bytes in all", func(c *ci.PMRCreate) {
			c.Ranges, c.Length = []ci.DMARange{{Size: 1 << 63}, {Size: 1 << 63}}, page
		}},
		{"ranges of 2^64 bytes behind those of the region", func(c *ci.PMRCreate) {
			c.Ranges = append(change(func(*ci.DMARange) {}), ci.DMARange{Size: 1 << 63}, ci.DMARange{Size: 1 << 63})
		}},
		{"a range behind those of the region that wraps around", func(c *ci.PMRCreate) {
			c.Ranges = append(change(func(*ci.DMARange) {}), ci.DMARange{Addr: -page, Size: 2 * page})
		}},
		{"an offset behind the first range", func(c *ci.PMRCreate) {
			c.Ranges = append([]ci.DMARange{{Addr: good.Ranges[0].Addr, Size: page}}, good.Ranges...)
			c.Offset, c.Length = page, 1
		}},
		{"addresses that wrap around", func(c *ci.PMRCreate) { c.IOVA = -page }},
	}) {
		c := good
		x.f(&c)
		mr, err := pd.RegisterPMR(c)
		kit.WantRefused(t, mr, err, "PD.RegisterPMR with "+x.what, ci.InvalidParameter)
	}
	kit.Destroy(t, d, "DMA after rejected calls of PD.RegisterPMR")
}, mrPhysicalCases.Must("CI-RegisterPMR-01", "IBTA 11.2.8", "ci_register_pmr (38)",
	"A page size that the HCA does not support, a range that is not page-aligned, and bytes outside the ranges "+
		"fail with InvalidParameter."))

var _ = mrPhysicalCases.Add("mr.physical.permission", "remote write without local write", func(t *validate.T) {
	ca := kit.Open(t)
	pd := ca.PD()
	page := smallPage(ca.Attr)
	d := ca.DMA(kit.Pages(int(page), int(page)))
	mr, err := pd.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: page, Length: page, Access: ci.RemoteWrite})
	kit.WantRefused(t, mr, err, "PD.RegisterPMR with remote write and without local write", ci.InvalidPermission)
}, ciRegisterMR02)

// physical returns a region over new pages, with all access rights.
func physical(t *validate.T, e *kit.End, pages int) ([]byte, ci.DMA, ci.MR) {
	page := smallPage(t.Attr())
	n := uint64(pages) * page
	mem := kit.Pages(int(n), int(page))
	d := e.CA.DMA(mem)
	mr, err := e.PD.RegisterPMR(ci.PMRCreate{
		Ranges:   d.Ranges(),
		PageSize: page,
		Length:   n,
		IOVA:     0x100000,
		Access:   kit.AllAccess,
	})
	kit.OK(t, err, "PD.RegisterPMR")
	return mem, d, kit.Own(t, mr, "PMR")
}

var _ = mrPhysicalCases.Add("mr.physical.destroy", "write to a destroyed physical region", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	mem, _, mr := physical(t, p.B, 1)
	r := mr.Region()
	p.WantWrite("the region", r.Remote(0), mem[:64])
	kit.DestroyTwice(t, mr, "PMR", ci.InvalidMRHandle)
	p.WantUntouched("the destroyed region", r.Remote(0), mem[:64])
}, ciDeregisterMR02)

var ciMapDMA01 = mrPhysicalCases.Must("CI-MapDMA-01", "CI DMA", "CA.MapDMA",
	"Destroy of a DMA mapping that a region uses fails with ResourceBusy, and the region still works.")

var _ = mrPhysicalCases.Add("mr.physical.busy", "unmap memory that a region uses", func(t *validate.T) {
	p := kit.RC(t, kit.Size(4096))
	mem, d, mr := physical(t, p.B, 2)
	kit.WantExactly(t, d.Destroy(), "DMA.Destroy while a region uses it", ci.ResourceBusy)
	p.WantWrite("the region after the rejected DMA.Destroy", mr.Region().Remote(100), mem[100:200])
	kit.Destroy(t, mr, "PMR")
	kit.DestroyTwice(t, d, "DMA that no region uses", ci.InvalidHandle)
}, ciMapDMA01, req.SAS2_3_26)

var _ = mrPhysicalCases.Needing(validate.Needs{AnyCaps: ci.CapFMR | ci.CapFastReg | ci.CapPhysicalMR}).Add(
	"mr.dma.ranges", "ranges of memory, and of empty memory", mrDMARanges,
	mrPhysicalCases.Must("CI-MapDMA-02", "CI DMA", "CA.MapDMA",
		"The ranges of a DMA mapping cover its memory and do not overlap those of other mappings. Missing or empty "+
			"memory cannot be mapped."))

func mrDMARanges(t *validate.T) {
	ca := kit.Open(t)
	page := smallPage(ca.Attr)
	var all []ci.DMARange
	for _, n := range kit.Variants(t, "bytes", []uint64{1, page, 5 * page, 5*page + 1}) {
		ranges := ca.DMA(kit.Pages(int(n), int(page))).Ranges()
		var sum uint64
		for _, r := range ranges {
			sum += r.Size
			for _, o := range all {
				if r.Addr < o.Addr+o.Size && o.Addr < r.Addr+r.Size {
					t.Failf("DMA.Ranges", "ranges that do not overlap others",
						"address %#x, %d bytes, which overlaps address %#x, %d bytes", r.Addr, r.Size, o.Addr, o.Size)
				}
			}
			all = append(all, r)
		}
		kit.AtLeast(t, fmt.Sprintf("bytes in the ranges of %d bytes of memory", n), sum, n)
	}
	d, err := ca.MapDMA(nil)
	kit.WantRefused(t, d, err, "CA.MapDMA of nil", ci.InvalidParameter)
	d, err = ca.MapDMA(ci.Bytes(nil))
	kit.WantRefused(t, d, err, "CA.MapDMA of an empty memory", ci.InvalidParameter)
}
