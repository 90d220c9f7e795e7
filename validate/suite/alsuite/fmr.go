package alsuite

import (
	"fmt"
	"math/bits"
	"slices"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

var CIPool02 = pools.Must("CI-Pool-02", "CI access layer", "accesslayer, FMRPool",
	"A mapping of a pool of FMRs grants the peer access until a flush after its return. A flush begins when as many "+
		"mappings wait for one as DirtyWatermark, when Map has no other FMR, or by Flush.")

var CIPool03 = pools.Must("CI-Pool-03", "CI access layer", "accesslayer, FMRPool",
	"A pool of FMRs with a cache uses a mapping again for the same pages at the same address, also while it is in "+
		"use, and for no others.")

var _ = pools.Add("al.pool.fmr", "a pool of FMRs", fmrPool, CIPool02)

var _ = pools.Add("al.pool.fmr-cache", "mappings that a pool of FMRs uses again", fmrPoolCache, CIPool03)

// fmrStage is a pool of FMRs and memory whose pages it can map.
type fmrStage struct {
	*accesslayer.FMRPool
	p       *kit.Pair
	mem     []byte
	pages   []uint64
	page    int
	flushes chan error
}

// newFMRPool returns a pool over the smallest pages.
func (s *stage) newFMRPool(cfg accesslayer.FMRPoolConfig, numPages int) *fmrStage {
	p := s.pair(kit.Size(64))
	pd := typed[*accesslayer.PD](s.t, p.B.PD, "PD")
	page := slices.Min(p.B.CA.Attr.PageSizes)
	cfg.PageShift, cfg.Access = uint8(bits.TrailingZeros64(page)), ci.LocalWrite|ci.RemoteWrite
	f := &fmrStage{p: p, page: int(page), flushes: make(chan error, 16)}
	for name, bad := range map[string]func(*accesslayer.FMRPoolConfig){
		"no FMRs":                    func(c *accesslayer.FMRPoolConfig) { c.Size = 0 },
		"a negative size":            func(c *accesslayer.FMRPoolConfig) { c.Size = -1 },
		"no pages":                   func(c *accesslayer.FMRPoolConfig) { c.MaxPages = 0 },
		"a negative watermark":       func(c *accesslayer.FMRPoolConfig) { c.DirtyWatermark = -1 },
		"a watermark above the size": func(c *accesslayer.FMRPoolConfig) { c.DirtyWatermark = c.Size + 1 },
		"more maps than the HCA supports": func(c *accesslayer.FMRPoolConfig) {
			c.MaxMaps = p.B.CA.Attr.MaxMapsPerFMR + 1
		},
	} {
		c := cfg
		bad(&c)
		_, err := pd.NewFMRPool(c)
		kit.WantExactly(s.t, err, "PD.NewFMRPool with "+name, ci.InvalidParameter)
	}
	cfg.OnFlush = func(err error) { f.flushes <- err }
	pool, err := pd.NewFMRPool(cfg)
	kit.OK(s.t, err, "PD.NewFMRPool")
	f.FMRPool = pool
	f.mem = kit.Pages(numPages*f.page, f.page)
	f.pages = kit.PageList(p.B.CA.DMA(f.mem).Ranges(), page)
	kit.Equal(s.t, "whole pages that CA.MapDMA maps", len(f.pages), numPages)
	return f
}

// mapped maps page n and expects that the peer can write to it.
func (f *fmrStage) mapped(t *validate.T, n int, iova uint64) *accesslayer.FMRMapping {
	m, err := f.Map(f.pages[n:n+1], iova)
	kit.OK(t, err, "FMRPool.Map")
	f.reaches(m, n)
	return m
}

// bytes returns the first bytes of page n.
func (f *fmrStage) bytes(n int) []byte { return f.mem[n*f.page : n*f.page+64] }

// reaches expects that the peer can write to page n through a mapping of one page, and only there.
func (f *fmrStage) reaches(m *accesslayer.FMRMapping, n int) {
	f.p.WantWrite(fmt.Sprintf("page %d through a mapping of it", n), m.Remote(0), f.bytes(n))
	f.p.WantDenied("RDMA WRITE behind a mapping", ci.OpWrite, 1, m.Remote(uint64(f.page)))
}

// denied expects that the peer cannot write to page n.
func (f *fmrStage) denied(m *accesslayer.FMRMapping, n int) {
	f.p.WantUntouched(fmt.Sprintf("page %d through a mapping that was flushed", n), m.Remote(0), f.bytes(n))
}

// flushed waits for a flush without an error.
func (f *fmrStage) flushed(t *validate.T) {
	kit.OK(t, expect(t, f.flushes, "FMRPoolConfig.OnFlush"), "flush of the pool")
}

// full expects that the pool has no FMR for another mapping.
func (f *fmrStage) full(t *validate.T, n int, where string) {
	_, err := f.Map(f.pages[n:n+1], 0)
	kit.WantExactly(t, err, "FMRPool.Map "+where, ci.InsufficientResources)
}

func fmrPool(t *validate.T) {
	s := registered(t)
	f := s.newFMRPool(accesslayer.FMRPoolConfig{FMRCreate: ci.FMRCreate{MaxPages: 2, MaxMaps: 1}, Size: 3,
		DirtyWatermark: 2}, 4)
	_, err := f.Map(nil, 0)
	kit.WantExactly(t, err, "FMRPool.Map of no pages", ci.InvalidParameter)
	_, err = f.Map(f.pages[:3], 0)
	kit.WantExactly(t, err, "FMRPool.Map of more than MaxPages", ci.InvalidParameter)
	_, err = f.Map(f.pages[:1], 1)
	kit.WantExactly(t, err, "FMRPool.Map at an address that is not page-aligned", ci.InvalidParameter)

	both, err := f.Map([]uint64{f.pages[3], f.pages[0]}, 0)
	kit.OK(t, err, "FMRPool.Map of MaxPages")
	f.p.WantWrite("second page of a mapping", both.Remote(uint64(f.page)), f.bytes(0))
	second, third := f.mapped(t, 1, 0), f.mapped(t, 2, uint64(f.page))
	kit.Equal(t, "FMRMapping.Addr", third.Addr, uint64(f.page))
	f.full(t, 3, "while all FMRs are in use")
	none(t, f.flushes, "FMRPoolConfig.OnFlush, while nothing waits for a flush")

	// One mapping waits, which is below the watermark: only a Map that needs its FMR begins a flush.
	kit.OK(t, both.Unmap(), "FMRMapping.Unmap")
	kit.WantExactly(t, both.Unmap(), "second FMRMapping.Unmap", ci.InvalidHandle)
	none(t, f.flushes, "FMRPoolConfig.OnFlush, below the watermark")
	f.full(t, 3, "while an FMR waits for a flush")
	f.flushed(t)
	f.denied(both, 3)
	f.reaches(second, 1)
	fourth := f.mapped(t, 3, 0)

	// The watermark begins a flush, which leaves the mapping that was not returned.
	kit.OK(t, second.Unmap(), "FMRMapping.Unmap")
	kit.OK(t, third.Unmap(), "FMRMapping.Unmap")
	f.flushed(t)
	f.p.WantUntouched("a mapping that was flushed at the watermark", second.Remote(0), f.bytes(1))
	f.p.WantUntouched("a mapping that was flushed at the watermark", third.Remote(0), f.bytes(2))
	f.reaches(fourth, 3)

	kit.OK(t, fourth.Unmap(), "FMRMapping.Unmap")
	kit.OK(t, f.Flush(), "FMRPool.Flush")
	f.flushed(t)
	f.denied(fourth, 3)
	left := f.mapped(t, 0, 0)
	kit.OK(t, f.Destroy(), "FMRPool.Destroy with a mapping")
	f.denied(left, 0)
	_, err = f.Map(f.pages[:1], 0)
	kit.WantExactly(t, err, "FMRPool.Map of a destroyed pool", ci.InvalidHandle)
	kit.WantExactly(t, left.Unmap(), "FMRMapping.Unmap of a destroyed pool", ci.InvalidHandle)
	kit.WantExactly(t, f.Flush(), "FMRPool.Flush of a destroyed pool", ci.InvalidHandle)
	s.rec[1].clean(t)
}

func fmrPoolCache(t *validate.T) {
	s := registered(t)
	f := s.newFMRPool(accesslayer.FMRPoolConfig{FMRCreate: ci.FMRCreate{MaxPages: 2, MaxMaps: 2}, Size: 2,
		Cache: true}, 3)
	first := f.mapped(t, 0, 0)
	twin := f.mapped(t, 0, 0)
	kit.Equal(t, "Region of a mapping of the same pages", twin.Region, first.Region)
	other := f.mapped(t, 0, uint64(f.page)) // the other FMR: another address
	f.full(t, 1, "while all FMRs are in use")
	kit.OK(t, first.Unmap(), "FMRMapping.Unmap")
	f.full(t, 1, "while the FMR has another user")
	f.reaches(twin, 0)
	kit.OK(t, twin.Unmap(), "FMRMapping.Unmap of the last user")
	again := f.mapped(t, 0, 0)
	kit.Equal(t, "Region of a mapping of the same pages that was returned", again.Region, first.Region)
	f.full(t, 1, "while all FMRs are in use again")
	kit.OK(t, again.Unmap(), "FMRMapping.Unmap")

	// The second map of the FMR is the last: it waits for a flush after it, which the pool begins with one such FMR.
	replaced := f.mapped(t, 1, 0)
	kit.True(t, replaced.Region != first.Region, "Region of other pages", "another one", "%+v, of the earlier mapping",
		replaced.Region)
	kit.OK(t, replaced.Unmap(), "FMRMapping.Unmap")
	f.flushed(t)
	f.denied(replaced, 1)

	// A flush of the pool leaves no mapping to use again.
	kit.OK(t, other.Unmap(), "FMRMapping.Unmap")
	kit.OK(t, f.Flush(), "FMRPool.Flush")
	f.flushed(t)
	f.denied(other, 0)
	f.mapped(t, 0, uint64(f.page))
	f.mapped(t, 1, 0)
	f.full(t, 2, "while all FMRs are in use after a flush")
	kit.OK(t, f.Destroy(), "FMRPool.Destroy with mappings")
	s.rec[1].clean(t)
}
