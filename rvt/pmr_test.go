package rvt

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// runs returns ranges for pairs of address and size.
func runs(p ...uint64) (r []ci.DMARange) {
	for ; len(p) > 0; p = p[2:] {
		r = append(r, ci.DMARange{Addr: p[0], Size: p[1]})
	}
	return r
}

func TestRegisterPMR(t *testing.T) {
	r := newMemRig(t, nil)
	b := memPattern(make([]byte, 10*4096+100), 3)
	d := r.mapDMA(ci.Bytes(b))
	ranges := d.Ranges()
	require.Greater(t, len(ranges), 2)
	last := ranges[len(ranges)-1]
	far := ci.DMARange{Addr: dmaHigh, Size: 4096}
	const all = 10*4096 + 100
	for _, c := range []struct {
		name string
		c    ci.PMRCreate
		want ci.Status
		addr uint64
		off  int // of the first byte in b
	}{
		{"all", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Length: all, IOVA: 0x10000}, 0, 0x10000, 0},
		{"offset", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: 17, Length: all - 17, IOVA: 0x10011},
			0, 0x10011, 17},
		{"another offset than wanted", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: 17, Length: 99,
			IOVA: 0x10022}, 0, 0x10011, 17},
		{"one byte", ci.PMRCreate{Ranges: ranges[:1], PageSize: 4096, Offset: 4095, Length: 1}, 0, 4095, 4095},
		{"zero based", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: 5, Length: 99, IOVA: 0x10005,
			Access: ci.ZeroBased}, 0, 0, 5},
		{"ranges behind are not looked at", ci.PMRCreate{Ranges: []ci.DMARange{ranges[0], far}, PageSize: 4096,
			Length: 9}, 0, 0, 0},

		{"no ranges", ci.PMRCreate{PageSize: 4096, Length: 1}, ci.InvalidParameter, 0, 0},
		{"empty", ci.PMRCreate{Ranges: ranges, PageSize: 4096}, ci.InvalidParameter, 0, 0},
		{"page size 0", ci.PMRCreate{Ranges: ranges, Length: all}, ci.InvalidParameter, 0, 0},
		{"page size unknown", ci.PMRCreate{Ranges: ranges, PageSize: 8192, Length: all}, ci.InvalidParameter, 0, 0},
		{"page size too long", ci.PMRCreate{Ranges: ranges, PageSize: 1 << 21, Length: all}, ci.InvalidParameter, 0, 0},
		{"start off bounds", ci.PMRCreate{Ranges: runs(ranges[0].Addr+8, 4096), PageSize: 4096, Length: 8},
			ci.InvalidParameter, 0, 0},
		{"size off bounds", ci.PMRCreate{Ranges: runs(ranges[0].Addr, 4095), PageSize: 4096, Length: 8},
			ci.InvalidParameter, 0, 0},
		{"empty range", ci.PMRCreate{Ranges: runs(ranges[0].Addr, 0), PageSize: 4096, Length: 8},
			ci.InvalidParameter, 0, 0},
		{"not mapped", ci.PMRCreate{Ranges: []ci.DMARange{far}, PageSize: 4096, Length: 8}, ci.InvalidParameter, 0, 0},
		{"a virtual address", ci.PMRCreate{Ranges: runs(ci.Bytes(b).Addr()&^4095, 4096), PageSize: 4096, Length: 8},
			ci.InvalidParameter, 0, 0},
		{"range runs out of the mapping", ci.PMRCreate{Ranges: runs(ranges[0].Addr, 1<<20), PageSize: 4096,
			Length: all}, ci.InvalidParameter, 0, 0},
		{"behind the storage", ci.PMRCreate{Ranges: []ci.DMARange{last}, PageSize: 4096, Length: last.Size},
			ci.InvalidParameter, 0, 0},
		{"one too long", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: 1, Length: all},
			ci.InvalidParameter, 0, 0},
		{"offset behind the first range", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: ranges[0].Size,
			Length: 1}, ci.InvalidParameter, 0, 0},
		{"length wraps", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: 2, Length: math.MaxUint64},
			ci.InvalidParameter, 0, 0},
		{"ranges wrap", ci.PMRCreate{Ranges: runs(math.MaxUint64&^4095, 8192), PageSize: 4096, Length: 1},
			ci.InvalidParameter, 0, 0},
		{"sizes wrap", ci.PMRCreate{Ranges: runs(0, 1<<63, 0, 1<<63), PageSize: 4096, Length: 1},
			ci.InvalidParameter, 0, 0},
		{"addresses wrap", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Length: all, IOVA: math.MaxUint64 &^ 4095},
			ci.InvalidParameter, 0, 0},
		{"rights", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Length: all, Access: ci.RemoteWrite},
			ci.InvalidPermission, 0, 0},
		{"unknown right", ci.PMRCreate{Ranges: ranges, PageSize: 4096, Length: all, Access: 1 << 12},
			ci.InvalidParameter, 0, 0},
	} {
		m, err := r.pd.RegisterPMR(c.c)
		if c.want != 0 {
			requireStatus(t, c.want, err)
			require.Nil(t, m, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		g := m.Region()
		require.Equal(t, c.addr, g.Addr, c.name)
		require.Equal(t, c.c.Length, g.Length, c.name)
		var h holds
		got := make([]byte, g.Length)
		require.NoError(t, r.at(&h, r.pd, g, 0, uint32(g.Length)).read(got))
		require.Equal(t, b[c.off:c.off+len(got)], got, c.name)
		h.release()
		requireStatus(t, ci.ResourceBusy, d.Destroy())
		r.destroy(m)
	}
	require.Zero(t, d.refs.Count(), "a failure left a reference")

	// Ranges in another order form a region in that order.
	swapped := runs(ranges[1].Addr+4096, 4096, ranges[0].Addr, 4096, ranges[1].Addr+4096, 4096)
	m, err := r.pd.RegisterPMR(ci.PMRCreate{Ranges: swapped, PageSize: 4096, Length: 3 * 4096, Access: ci.LocalWrite})
	require.NoError(t, err)
	var h holds
	got := make([]byte, 3*4096)
	at := r.at(&h, r.pd, m.Region(), 0, 3*4096)
	require.NoError(t, at.read(got))
	require.Equal(t, bytes.Join([][]byte{b[8192:12288], b[:4096], b[8192:12288]}, nil), got)
	segs, ok := at.slices(nil, 3*4096)
	require.True(t, ok)
	require.Len(t, segs, 3)
	h.release()
	r.destroy(m, d)

	// Storage in extents, each range with its own length; and storage that can only be copied.
	for _, mem := range []*patchMemory{newPatches(0, 5000, 7000, 1, 20000), newPatches(0, 5000, -7000, 9000)} {
		for _, p := range mem.pieces {
			memPattern(p.b, 9)
		}
		d := r.mapDMA(mem)
		m, err := r.pd.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: 4096, Offset: 3,
			Length: mem.Len() - 3, IOVA: 3})
		require.NoError(t, err)
		got := make([]byte, mem.Len()-3)
		require.NoError(t, r.at(&h, r.pd, m.Region(), 0, uint32(len(got))).read(got))
		require.Equal(t, mem.all()[3:], got)
		h.release()
		r.destroy(m, d)
	}
	r.close()
}

// Each page size of the HCA works with storage that fills a page.
func TestPMRPageSizes(t *testing.T) {
	r := newMemRig(t, nil)
	for _, page := range r.h.attr.PageSizes {
		for _, pages := range []uint64{1, 2, 3} {
			d := r.mapDMA(ci.Bytes(make([]byte, page*pages)))
			m, err := r.pd.RegisterPMR(ci.PMRCreate{Ranges: slices.Clone(d.Ranges()), PageSize: page,
				Length: page * pages})
			require.NoError(t, err, "%d pages of %d", pages, page)
			g := m.Region()
			require.True(t, r.localOK(r.pd, g.LKey, g.Addr, uint32(page*pages), false))
			r.destroy(m, d)
		}
	}
	r.close()
}
