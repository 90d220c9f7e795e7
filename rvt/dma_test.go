package rvt

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestMapDMA(t *testing.T) {
	r := newMemRig(t, nil)
	seen := make(map[uint64]bool)
	for _, size := range []int{1, 4095, 4096, 4097, 3 * 4096, 4*4096 + 5, 1 << 16, 1<<16 + 1, 5 << 16,
		1 << 21, 3<<21 + 7} {
		mem := ci.Bytes(make([]byte, size))
		d := r.mapDMA(mem)
		var sum uint64
		page := uint64(4096)
		for _, p := range r.h.attr.PageSizes {
			if p <= uint64(size) {
				page = p
			}
		}
		for i, g := range d.Ranges() {
			require.Zero(t, g.Addr%page, "%d: a range starts on the bounds of the longest page that fits", size)
			require.Zero(t, g.Size%4096)
			if i < len(d.Ranges())-1 {
				require.Zero(t, g.Size%page)
			}
			require.False(t, g.Addr <= mem.Addr() && mem.Addr() < g.Addr+g.Size)
			require.GreaterOrEqual(t, g.Addr, uint64(dmaLow))
			require.Less(t, g.Addr+g.Size, uint64(dmaHigh))
			require.False(t, seen[g.Addr], "an address came again")
			seen[g.Addr] = true
			sum += g.Size
		}
		require.Equal(t, (uint64(size)+4095)&^4095, sum)
		if uint64(size) >= 2*page {
			require.Greater(t, len(d.Ranges()), 1, "%d: consumers should meet several ranges", size)
		}
		r.destroy(d)
		requireStatus(t, ci.InvalidHandle, d.Destroy())
	}
	for _, m := range []ci.Memory{nil, ci.Bytes(nil), placedMemory{size: 1<<40 + 1}, placedMemory{size: 1 << 63}} {
		d, err := r.ca.MapDMA(m)
		requireStatus(t, ci.InvalidParameter, err)
		require.Nil(t, d)
	}
	r.close()
}

// Runs of different mappings never overlap, and only mapped addresses resolve.
func TestDMASpace(t *testing.T) {
	r := newMemRig(t, nil)
	var ds []*DMA
	for i := range 200 {
		ds = append(ds, r.mapDMA(ci.Bytes(make([]byte, 1+i*997))))
	}
	runs := r.h.keys.dma.runs
	require.True(t, slices.IsSortedFunc(runs, func(a, b dmaRun) int {
		if a.addr+a.span < b.addr {
			return -1
		}
		return 1
	}), "runs touch or overlap")
	resolve := func(addr, n uint64) uint64 {
		var c dmaCollector
		defer c.done()
		return c.upTo(&r.h.keys.dma, addr, n)
	}
	for _, u := range slices.Clone(runs) {
		require.Equal(t, u.size, resolve(u.addr, math.MaxUint64-u.addr))
		require.EqualValues(t, 1, resolve(u.addr+u.size-1, 100))
		require.Zero(t, resolve(u.addr+u.size, 1))
		require.Zero(t, resolve(u.addr-1, 2))
	}
	require.Zero(t, resolve(0, 1))
	require.Zero(t, resolve(math.MaxUint64, 1))
	for _, d := range ds {
		require.Zero(t, d.refs.Count(), "a reference is left")
		r.destroy(d)
	}
	r.close()
}

func TestDMASpaceFull(t *testing.T) {
	r := newMemRig(t, func(c *Config) { c.Attr.MaxMRSize, c.Attr.PageSizes = 1<<62, []uint64{4096} })
	_, err := r.ca.MapDMA(placedMemory{size: 1 << 61})
	requireStatus(t, ci.InsufficientResources, err)
	r.close()
}
