package rvt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestFastReg(t *testing.T) {
	r := newMemRig(t, nil)
	b := memPattern(make([]byte, 8*4096), 1)
	d := r.mapDMA(ci.Bytes(b))
	var pages []uint64
	for _, g := range d.Ranges() {
		for a := g.Addr; a < g.Addr+g.Size; a += 4096 {
			pages = append(pages, a)
		}
	}
	for _, n := range []int{0, -1, 513} {
		m, err := r.pd.AllocFastRegMR(n)
		requireStatus(t, ci.InvalidParameter, err)
		require.Nil(t, m)
	}
	o, err := r.pd.AllocFastRegMR(4)
	require.NoError(t, err)
	m := o.(*MR)
	g := m.Region()
	require.Equal(t, ci.Region{LKey: g.LKey, RKey: g.LKey}, g)
	require.NotZero(t, g.LKey)
	a, err := m.Query()
	require.NoError(t, err)
	require.Equal(t, ci.MRAttr{Region: g, PD: r.pd}, a)
	require.False(t, r.localOK(r.pd, g.LKey, 0, 1, false), "unmapped")

	other, err := r.pd2.AllocFastRegMR(4)
	require.NoError(t, err)
	plain := r.register(make([]byte, 64), allRights)
	good := ci.FastReg{Pages: []uint64{pages[5], pages[1]}, PageShift: 12, Offset: 10, Length: 8192 - 10, IOVA: 0x900a,
		Key:    g.LKey&^0xff | 0x5a,
		Access: allRights}
	with := func(f func(*ci.FastReg)) ci.FastReg { c := good; f(&c); return c }
	for _, c := range []struct {
		name string
		mr   ci.MR
		f    ci.FastReg
	}{
		{"no region", nil, good},
		{"an ordinary region", plain, with(func(f *ci.FastReg) { f.Key = plain.Region().LKey })},
		{"region of another PD", other, with(func(f *ci.FastReg) { f.Key = other.Region().LKey })},
		{"key of another index", m, with(func(f *ci.FastReg) { f.Key ^= 0x100 })},
		{"key 0", m, with(func(f *ci.FastReg) { f.Key = 0 })},
		{"no pages", m, with(func(f *ci.FastReg) { f.Pages = nil })},
		{"too many pages", m, with(func(f *ci.FastReg) { f.Pages = pages[:5] })},
		{"page off bounds", m, with(func(f *ci.FastReg) { f.Pages = []uint64{pages[0] + 1, pages[1]} })},
		{"page not mapped", m, with(func(f *ci.FastReg) { f.Pages = []uint64{pages[0], 0} })},
		{"page size unknown", m, with(func(f *ci.FastReg) { f.PageShift = 13 })},
		{"page shift absurd", m, with(func(f *ci.FastReg) { f.PageShift = 200 })},
		{"offset not in the page", m, with(func(f *ci.FastReg) { f.Offset, f.Length = 4096, 4096 })},
		{"address with another offset", m, with(func(f *ci.FastReg) { f.IOVA++ })},
		{"empty", m, with(func(f *ci.FastReg) { f.Length = 0 })},
		{"too long", m, with(func(f *ci.FastReg) { f.Length++ })},
		{"length wraps", m, with(func(f *ci.FastReg) { f.Length = math.MaxUint64 })},
		{"addresses wrap", m, with(func(f *ci.FastReg) { f.IOVA = math.MaxUint64&^0xfff | 10 })},
		{"rights", m, with(func(f *ci.FastReg) { f.Access = ci.RemoteWrite })},
		{"unknown right", m, with(func(f *ci.FastReg) { f.Access = 1 << 8 })},
	} {
		ext := &WorkExt{FastReg: c.f}
		if c.mr != nil {
			ext.MR = c.mr.(*MR)
		}
		require.Equal(t, ci.WCBindErr, r.h.fastReg(&r.q.endpoint, ext), c.name)
		require.Equal(t, g, m.Region(), c.name)
		require.Zero(t, d.refs.Count(), "%s: a reference is left", c.name)
	}
	require.Equal(t, ci.WCBindErr, r.h.fastReg(&r.q.endpoint, nil))

	require.Equal(t, ci.WCSuccess, r.h.fastReg(&r.q.endpoint, &WorkExt{MR: m, FastReg: good}))
	n := m.Region()
	require.Equal(t, ci.Region{Addr: 0x900a, Length: 8182, LKey: good.Key, RKey: good.Key}, n)
	require.True(t, r.remoteOK(r.q2, n.RKey, n.Addr, n.Length, ci.RemoteAtomic))
	require.False(t, r.remoteOK(r.q, g.RKey, n.Addr, 1, ci.RemoteRead), "the key from before")
	require.False(t, r.remoteOK(r.other, n.RKey, n.Addr, 1, ci.RemoteRead))
	var h holds
	got := make([]byte, 8)
	require.NoError(t, r.at(&h, r.pd, n, 4096-10-4, 8).read(got))
	require.Equal(t, append(append([]byte(nil), b[6*4096-4:6*4096]...), b[4096:4100]...), got)
	h.release()
	require.Equal(t, ci.WCBindErr, r.h.fastReg(&r.q.endpoint, &WorkExt{MR: m, FastReg: good}),
		"mapped: to be invalidated first")
	requireStatus(t, ci.ResourceBusy, d.Destroy())

	// Invalidation: who is permitted to invalidate, and the effect.
	for name, ok := range map[string]bool{
		"wrong variant":               r.h.localInv(&r.q.endpoint, n.LKey^1) == ci.WCSuccess,
		"wrong index":                 r.h.localInv(&r.q.endpoint, n.LKey^0x100) == ci.WCSuccess,
		"key 0":                       r.h.localInv(&r.q.endpoint, 0) == ci.WCSuccess,
		"another PD's QP":             r.h.localInv(&r.other.endpoint, n.LKey) == ci.WCSuccess,
		"ordinary region":             r.h.localInv(&r.q.endpoint, plain.Region().LKey) == ci.WCSuccess,
		"by a peer, plain":            r.h.keys.invalidate(&r.q.endpoint, plain.Region().LKey),
		"by a peer of another domain": r.h.keys.invalidate(&r.other.endpoint, n.RKey),
	} {
		require.False(t, ok, name)
	}
	w := r.window(ci.MWType2)
	key, st := r.bind(r.q, w, m, ci.MWBind{Addr: n.Addr, Length: 1, Key: w.Key(), Access: ci.RemoteRead})
	require.Equal(t, ci.WCSuccess, st)
	require.Equal(t, ci.WCBindErr, r.h.localInv(&r.q.endpoint, n.LKey), "a window is bound")
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, key))
	require.True(t, r.h.keys.invalidate(&r.q.endpoint, n.RKey))
	require.False(t, r.localOK(r.pd, n.LKey, n.Addr, 1, false))
	require.False(t, r.remoteOK(r.q, n.RKey, n.Addr, 1, ci.RemoteRead))
	require.Equal(t, ci.Region{LKey: n.LKey, RKey: n.LKey}, m.Region())
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, n.LKey), "once more changes nothing")
	require.Zero(t, d.refs.Count())

	// Zero-based, read-only, and again.
	z := with(func(f *ci.FastReg) { f.Access = ci.ZeroBased | ci.RemoteRead; f.Key++ })
	require.Equal(t, ci.WCSuccess, r.h.fastReg(&r.q.endpoint, &WorkExt{MR: m, FastReg: z}))
	require.True(t, r.remoteOK(r.q, z.Key, 0, z.Length, ci.RemoteRead))
	require.False(t, r.localOK(r.pd, z.Key, 0, 1, true))
	r.destroy(m)
	require.False(t, r.remoteOK(r.q, z.Key, 0, 1, ci.RemoteRead))
	require.Equal(t, ci.WCBindErr, r.h.fastReg(&r.q.endpoint, &WorkExt{MR: m, FastReg: z}), "destroyed")
	require.Equal(t, ci.WCBindErr, r.h.localInv(&r.q.endpoint, z.Key))
	r.destroy(w, d, other, plain)
	r.close()
}
