package rvt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestFMR(t *testing.T) {
	r := newMemRig(t, nil)
	b := memPattern(make([]byte, 4*4096+10), 1)
	d := r.mapDMA(ci.Bytes(b))
	var pages []uint64
	for _, g := range d.Ranges() {
		for a := g.Addr; a < g.Addr+g.Size; a += 4096 {
			pages = append(pages, a)
		}
	}
	require.Len(t, pages, 5)
	o, err := r.pd.AllocFMR(ci.FMRCreate{MaxPages: 5, MaxMaps: 3, PageShift: 12, Access: ci.LocalWrite | ci.RemoteRead})
	require.NoError(t, err)
	f := o.(*FMR)

	g, err := f.Map([]uint64{pages[2], pages[0]}, 0x70000)
	require.NoError(t, err)
	require.Equal(t, ci.Region{Addr: 0x70000, Length: 8192, LKey: g.LKey, RKey: g.LKey}, g)
	var h holds
	got := make([]byte, 200)
	require.NoError(t, r.at(&h, r.pd, g, 4000, 200).read(got))
	require.Equal(t, append(append([]byte(nil), b[2*4096+4000:3*4096]...), b[:104]...), got)
	h.release()
	require.True(t, r.remoteOK(r.q, g.RKey, g.Addr, 8192, ci.RemoteRead))
	require.False(t, r.remoteOK(r.q, g.RKey, g.Addr, 8192, ci.RemoteWrite))
	require.False(t, r.remoteOK(r.other, g.RKey, g.Addr, 1, ci.RemoteRead))
	require.False(t, r.localOK(r.pd2, g.LKey, g.Addr, 1, false))

	requireStatus(t, ci.ResourceBusy, f.Destroy())
	requireStatus(t, ci.ResourceBusy, d.Destroy())

	g2, err := f.Map(pages, 0x80000) // the last page ends with the storage
	require.NoError(t, err)
	require.EqualValues(t, len(b), g2.Length)
	require.NotEqual(t, g.LKey, g2.LKey)
	require.False(t, r.localOK(r.pd, g.LKey, g.Addr, 1, false), "a key of the mapping before")

	for _, c := range []struct {
		name  string
		pages []uint64
		iova  uint64
	}{
		{"none", nil, 0},
		{"too many", append(pages, pages[0]), 0},
		{"off bounds", []uint64{pages[0] + 8}, 0},
		{"not mapped", []uint64{pages[0], 0}, 0},
		{"short page in the middle", []uint64{pages[4], pages[0]}, 0},
		{"iova off bounds", pages, 8},
		{"addresses wrap", pages, math.MaxUint64 &^ 4095},
	} {
		_, err := f.Map(c.pages, c.iova)
		requireStatus(t, ci.InvalidParameter, err)
		require.True(t, r.localOK(r.pd, g2.LKey, g2.Addr, uint32(g2.Length), true),
			"%s: the mapping is as before", c.name)
	}
	g3, err := f.Map(pages[:1], 0)
	require.NoError(t, err)
	_, err = f.Map(pages[:1], 0)
	requireStatus(t, ci.InsufficientResources, err)
	require.True(t, r.localOK(r.pd, g3.LKey, 0, 4096, true))

	// Unmapping is all or nothing.
	o2, err := r.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
	require.NoError(t, err)
	require.NoError(t, r.pd.UnmapFMRs([]ci.FMR{o2}), "nothing mapped, nothing to do")
	r.destroy(o2)
	requireStatus(t, ci.InvalidFMRHandle, o2.Destroy())
	other := newMemRig(t, nil)
	foreign, err := other.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
	require.NoError(t, err)
	for _, bad := range []ci.FMR{o2, nil, (*FMR)(nil), foreign} {
		requireStatus(t, ci.InvalidFMRHandle, r.pd.UnmapFMRs([]ci.FMR{f, bad}))
		require.True(t, r.localOK(r.pd, g3.LKey, 0, 4096, true))
	}
	_, err = o2.Map(pages[:1], 0)
	requireStatus(t, ci.InvalidFMRHandle, err)
	require.NoError(t, r.pd.UnmapFMRs([]ci.FMR{wrappedFMR{f}, f}))
	require.False(t, r.localOK(r.pd, g3.LKey, 0, 1, true))
	for range 3 {
		_, err = f.Map(pages[:1], 0)
		require.NoError(t, err, "after an unmap, MaxMaps again")
	}
	require.NoError(t, r.pd.UnmapFMRs([]ci.FMR{f}))
	r.destroy(d, f, foreign)
	r.close()
	other.close()
}

func TestAllocFMR(t *testing.T) {
	r := newMemRig(t, nil)
	for _, c := range []struct {
		c    ci.FMRCreate
		want ci.Status
	}{
		{ci.FMRCreate{MaxPages: 0, MaxMaps: 1, PageShift: 12}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: -1, MaxMaps: 1, PageShift: 12}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1<<28 + 1, MaxMaps: 1, PageShift: 12}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 0, PageShift: 12}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 33, PageShift: 12}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 11}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 64}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 255}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: 1 << 15}, ci.InvalidParameter},
		{ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: ci.RemoteAtomic}, ci.InvalidPermission},
	} {
		f, err := r.pd.AllocFMR(c.c)
		requireStatus(t, c.want, err)
		require.Nil(t, f)
	}
	r.close()
}

// UnmapFMRs waits for accesses through every mapping since the last call, not only the present one.
func TestUnmapWaits(t *testing.T) {
	r := newMemRig(t, nil)
	d := r.mapDMA(ci.Bytes(make([]byte, 4096)))
	f, err := r.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 2, PageShift: 12})
	require.NoError(t, err)
	page := []uint64{d.Ranges()[0].Addr}
	g, err := f.Map(page, 0)
	require.NoError(t, err)
	var h holds
	r.at(&h, r.pd, g, 0, 1)
	g, err = f.Map(page, 0)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- r.pd.UnmapFMRs([]ci.FMR{f}) }()
	eventually(t, func() bool { return !r.localOK(r.pd, g.LKey, 0, 1, false) })
	select {
	case err := <-done:
		require.NoError(t, err)
		require.FailNow(t, "did not wait")
	default:
	}
	h.release()
	require.NoError(t, <-done)
	r.destroy(f, d)
	r.close()
}
