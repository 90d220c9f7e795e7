package rvt

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// placedMemory has an address and a size, and a single byte of storage, for tests of arithmetic.
type placedMemory struct {
	ci.Memory
	addr, size uint64
}

func (m placedMemory) Addr() uint64                { return m.addr }
func (m placedMemory) Len() uint64                 { return m.size }
func (m placedMemory) Slice(uint64, uint64) []byte { return nil }

func TestRegisterMR(t *testing.T) {
	const max = math.MaxUint64
	mem := placedMemory{addr: 0x12345, size: 1 << 20}
	for _, c := range []struct {
		name   string
		c      ci.MRCreate
		want   ci.Status
		region ci.Region // Addr and Length
	}{
		{"whole", ci.MRCreate{Memory: mem}, 0, ci.Region{Addr: 0x12345, Length: 1 << 20}},
		{"part", ci.MRCreate{Memory: mem, Offset: 5, Length: 7}, 0, ci.Region{Addr: 0x1234a, Length: 7}},
		{"to the end", ci.MRCreate{Memory: mem, Offset: 1<<20 - 1}, 0, ci.Region{Addr: 0x12345 + 1<<20 - 1, Length: 1}},
		{"IOVA", ci.MRCreate{Memory: mem, IOVA: 0x7000345}, 0, ci.Region{Addr: 0x7000345, Length: 1 << 20}},
		{"IOVA and offset", ci.MRCreate{Memory: mem, Offset: 0x1001, IOVA: 0x7000346}, 0,
			ci.Region{Addr: 0x7000346, Length: 1<<20 - 0x1001}},
		{"IOVA at the top", ci.MRCreate{Memory: mem, Length: 0xcba, IOVA: max - 0xcba}, 0,
			ci.Region{Addr: max - 0xcba, Length: 0xcba}},
		{"zero based", ci.MRCreate{Memory: mem, Offset: 3, Access: ci.ZeroBased}, 0, ci.Region{Length: 1<<20 - 3}},
		{"no remote write", ci.MRCreate{Memory: mem, Access: ci.RemoteRead}, 0,
			ci.Region{Addr: 0x12345, Length: 1 << 20}},
		{"all rights", ci.MRCreate{Memory: mem, Access: allRights | ci.NotCachable}, 0,
			ci.Region{Addr: 0x12345, Length: 1 << 20}},

		{"nil bytes", ci.MRCreate{Memory: ci.Bytes(nil)}, 0, ci.Region{}},
		{"empty", ci.MRCreate{Memory: placedMemory{addr: 0x40}, Access: allRights}, 0, ci.Region{Addr: 0x40}},
		{"nothing left", ci.MRCreate{Memory: mem, Offset: 1 << 20}, 0, ci.Region{Addr: 0x12345 + 1<<20}},
		{"nothing at the top", ci.MRCreate{Memory: placedMemory{addr: max}}, 0, ci.Region{Addr: max}},

		{"nil", ci.MRCreate{}, ci.InvalidParameter, ci.Region{}},
		{"offset beyond", ci.MRCreate{Memory: mem, Offset: 1<<20 + 1}, ci.InvalidParameter, ci.Region{}},
		{"length beyond", ci.MRCreate{Memory: mem, Offset: 1, Length: 1 << 20}, ci.InvalidParameter, ci.Region{}},
		{"length wraps", ci.MRCreate{Memory: mem, Offset: 2, Length: max}, ci.InvalidParameter, ci.Region{}},
		{"offset wraps", ci.MRCreate{Memory: mem, Offset: max, Length: 2}, ci.InvalidParameter, ci.Region{}},
		{"addresses wrap", ci.MRCreate{Memory: placedMemory{addr: max - 99, size: 101}},
			ci.InvalidParameter, ci.Region{}},
		{"IOVA wraps", ci.MRCreate{Memory: mem, IOVA: max&^0xfff | 0x345}, ci.InvalidParameter, ci.Region{}},
		{"IOVA in another place of its page", ci.MRCreate{Memory: mem, IOVA: 0x7000344},
			ci.InvalidParameter, ci.Region{}},
		{"IOVA and zero based", ci.MRCreate{Memory: mem, IOVA: 0x7000345, Access: ci.ZeroBased},
			ci.InvalidParameter, ci.Region{}},
		{"too long", ci.MRCreate{Memory: placedMemory{addr: 0, size: 1<<40 + 1}}, ci.InvalidParameter, ci.Region{}},
		{"impossibly long", ci.MRCreate{Memory: placedMemory{addr: 0, size: 1 << 63}},
			ci.InvalidParameter, ci.Region{}},
		{"unknown right", ci.MRCreate{Memory: mem, Access: 1 << 9}, ci.InvalidParameter, ci.Region{}},
		{"remote write only", ci.MRCreate{Memory: mem, Access: ci.RemoteWrite}, ci.InvalidPermission, ci.Region{}},
		{"remote atomic only", ci.MRCreate{Memory: mem, Access: ci.RemoteAtomic | ci.RemoteRead},
			ci.InvalidPermission, ci.Region{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newMemRig(t, nil)
			m, err := r.pd.RegisterMR(c.c)
			if c.want != 0 {
				requireStatus(t, c.want, err)
				require.Nil(t, m, "a failed verb returns no object")
				r.close()
				return
			}
			require.NoError(t, err)
			g := m.Region()
			require.Equal(t, c.region.Addr, g.Addr)
			require.Equal(t, c.region.Length, g.Length)
			a, err := m.Query()
			require.NoError(t, err)
			want := ci.MRAttr{Region: g, PD: r.pd, Access: c.c.Access, LocalLo: g.Addr, LocalHi: g.Addr + g.Length}
			if c.c.Access&remoteRights != 0 {
				want.RemoteLo, want.RemoteHi = want.LocalLo, want.LocalHi
				require.Equal(t, g.LKey, g.RKey)
			} else {
				require.Zero(t, g.RKey)
			}
			require.Equal(t, want, a)
			require.Equal(t, g.Length > 0, r.localOK(r.pd, g.LKey, g.Addr+g.Length-1, 1, false))
			require.False(t, r.localOK(r.pd, g.LKey, g.Addr+g.Length, 1, false))
			requireStatus(t, ci.ResourceBusy, r.pd.Destroy())
			r.destroy(m)
			requireStatus(t, ci.InvalidMRHandle, m.Destroy())
			_, err = m.Query()
			requireStatus(t, ci.InvalidMRHandle, err)
			requireStatus(t, ci.InvalidMRHandle, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{}))
			requireStatus(t, ci.InvalidMRHandle, m.ModifyPMR(ci.MRFieldAccess, nil, ci.PMRCreate{}))
			_, err = r.pd.RegisterSMR(m, 0, 0)
			requireStatus(t, ci.InvalidMRHandle, err)
			r.close()
		})
	}
}

func TestRegisterLimits(t *testing.T) {
	r := newMemRig(t, func(c *Config) {
		c.Attr.MaxMRs, c.Attr.MaxMWs = 1, 1
		c.Attr.MaxFMRs, c.Attr.MaxMRSize = 1, 4096
	})
	c := ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096))}
	m, err := r.pd.RegisterMR(c)
	require.NoError(t, err)
	d := r.mapDMA(c.Memory)
	p := ci.PMRCreate{Ranges: d.Ranges(), PageSize: 4096, Length: 4096}
	for name, f := range map[string]func() (ci.Object, error){
		"virtual":  func() (ci.Object, error) { return r.pd.RegisterMR(c) },
		"physical": func() (ci.Object, error) { return r.pd.RegisterPMR(p) },
		"shared":   func() (ci.Object, error) { return r.pd.RegisterSMR(m, 0, 0) },
		"fast":     func() (ci.Object, error) { return r.pd.AllocFastRegMR(1) },
	} {
		_, err = f()
		require.Error(t, err, name)
		requireStatus(t, ci.InsufficientResources, err)
	}
	w, err := r.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
	require.NoError(t, err)
	_, err = r.pd.CreateMW(ci.MWCreate{Type: ci.MWType2})
	requireStatus(t, ci.InsufficientResources, err)
	fc := ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12}
	f, err := r.pd.AllocFMR(fc)
	require.NoError(t, err)
	_, err = r.pd.AllocFMR(fc)
	requireStatus(t, ci.InsufficientResources, err)
	fc.MaxPages = 2
	_, err = r.pd.AllocFMR(fc)
	requireStatus(t, ci.InvalidParameter, err)
	_, err = r.ca.MapDMA(ci.Bytes(make([]byte, 4097)))
	requireStatus(t, ci.InvalidParameter, err)

	// The failures have left nothing: everything can be destroyed and created again.
	r.destroy(m, d, w, f)
	m, err = r.pd.RegisterMR(c)
	require.NoError(t, err)
	r.destroy(m)
	r.close()
}

// Verbs on a deallocated PD, or on an HCA without the capability.
func TestMemVerbsRefused(t *testing.T) {
	verbs := func(r *memRig) map[string]error {
		e := make(map[string]error)
		b := ci.Bytes(make([]byte, 8))
		_, e["PD.RegisterPMR"] = r.pd.RegisterPMR(ci.PMRCreate{})
		_, e["PD.RegisterSMR"] = r.pd.RegisterSMR(nil, 0, 0)
		_, e["PD.AllocFastRegMR"] = r.pd.AllocFastRegMR(1)
		_, e["PD.AllocFMR"] = r.pd.AllocFMR(ci.FMRCreate{})
		e["PD.UnmapFMRs"] = r.pd.UnmapFMRs(nil)
		_, e["PD.CreateMW"] = r.pd.CreateMW(ci.MWCreate{Type: ci.MWType1})
		_, e["CA.MapDMA"] = r.ca.MapDMA(b)
		return e
	}
	r := newMemRig(t, func(c *Config) { c.Attr.Caps = 0 })
	for name, err := range verbs(r) {
		requireStatus(t, ci.Unsupported, err)
		require.Contains(t, err.Error(), name)
	}
	b := ci.Bytes(make([]byte, 8))
	m, err := r.pd.RegisterMR(ci.MRCreate{Memory: b})
	require.NoError(t, err)
	requireStatus(t, ci.Unsupported, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{}))
	requireStatus(t, ci.Unsupported, m.ModifyPMR(ci.MRFieldAccess, nil, ci.PMRCreate{}))
	_, err = r.pd.RegisterMR(ci.MRCreate{Memory: b, Access: ci.ZeroBased})
	requireStatus(t, ci.Unsupported, err)
	r.destroy(m)
	r.close()
	_, err = r.pd.RegisterMR(ci.MRCreate{Memory: b})
	requireStatus(t, ci.InvalidPDHandle, err)

	r = newMemRig(t, nil)
	r.close()
	require.NoError(t, r.ca.refs.BeginDestroy("", 0))
	for name, err := range verbs(r) {
		if name == "CA.MapDMA" {
			requireStatus(t, ci.InvalidCAHandle, err)
		} else {
			requireStatus(t, ci.InvalidPDHandle, err)
		}
	}
}

func TestModifyMR(t *testing.T) {
	r := newMemRig(t, nil)
	b, b2 := make([]byte, 100), make([]byte, 50)
	m := r.register(b, allRights)
	old := m.Region()
	dead := func(k ci.Key, addr uint64) {
		t.Helper()
		for _, pd := range []*PD{r.pd, r.pd2} {
			require.False(t, r.localOK(pd, k, addr, 1, false), "the old key works")
		}
		require.False(t, r.remoteOK(r.q, k, addr, 1, ci.RemoteRead))
		require.False(t, r.remoteOK(r.other, k, addr, 1, ci.RemoteRead))
	}

	// Rights.
	require.NoError(t, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.RemoteRead}))
	g := m.Region()
	require.Equal(t, old.Addr, g.Addr)
	require.NotEqual(t, old.LKey, g.LKey)
	require.Equal(t, old.LKey>>8, g.LKey>>8)
	dead(old.LKey, old.Addr)
	require.True(t, r.remoteOK(r.q, g.RKey, g.Addr, 100, ci.RemoteRead))
	require.False(t, r.remoteOK(r.q, g.RKey, g.Addr, 1, ci.RemoteWrite))
	require.False(t, r.localOK(r.pd, g.LKey, g.Addr, 1, true))
	old = g

	// Domain: passed as the value of a wrapper, which Query returns.
	face := wrappedPD{r.pd2}
	require.NoError(t, m.Modify(ci.MRFieldPD, face, ci.MRCreate{}))
	g = m.Region()
	dead(old.LKey, old.Addr)
	require.True(t, r.localOK(r.pd2, g.LKey, g.Addr, 100, false))
	require.False(t, r.localOK(r.pd, g.LKey, g.Addr, 100, false))
	a, err := m.Query()
	require.NoError(t, err)
	require.Equal(t, ci.MRAttr{Region: g, PD: face, Access: ci.RemoteRead, LocalLo: g.Addr, LocalHi: g.Addr + 100,
		RemoteLo: g.Addr,
		RemoteHi: g.Addr + 100}, a)
	old = g

	// Storage, all at once.
	require.NoError(t, m.Modify(ci.MRFieldMemory|ci.MRFieldPD|ci.MRFieldAccess, r.pd,
		ci.MRCreate{Memory: ci.Bytes(b2), Offset: 10,
			Access: ci.LocalWrite}))
	g = m.Region()
	dead(old.LKey, old.Addr)
	dead(old.LKey, g.Addr)
	require.EqualValues(t, 40, g.Length)
	require.Zero(t, g.RKey)
	var h holds
	require.NoError(t, r.at(&h, r.pd, g, 0, 1).write([]byte{42}))
	h.release()
	require.EqualValues(t, 42, b2[10])

	// Failures leave the region unchanged.
	o := newMemRig(t, nil)
	w := r.window(ci.MWType1)
	for _, c := range []struct {
		name string
		set  ci.MRField
		pd   ci.PD
		c    ci.MRCreate
		want ci.Status
	}{
		{"no field", 0, nil, ci.MRCreate{}, ci.InvalidParameter},
		{"unknown field", 1 << 7, nil, ci.MRCreate{}, ci.InvalidParameter},
		{"nil PD", ci.MRFieldPD, nil, ci.MRCreate{}, ci.InvalidPDHandle},
		{"typed nil PD", ci.MRFieldPD, (*PD)(nil), ci.MRCreate{}, ci.InvalidPDHandle},
		{"PD of another HCA", ci.MRFieldPD, o.pd, ci.MRCreate{}, ci.InvalidPDHandle},
		{"rights", ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.RemoteWrite}, ci.InvalidPermission},
		{"unknown right", ci.MRFieldAccess, nil, ci.MRCreate{Access: 1 << 20}, ci.InvalidParameter},
		{"no memory", ci.MRFieldMemory, nil, ci.MRCreate{}, ci.InvalidParameter},
		{"bad memory, other PD", ci.MRFieldMemory | ci.MRFieldPD, r.pd2, ci.MRCreate{}, ci.InvalidParameter},
	} {
		requireStatus(t, c.want, m.Modify(c.set, c.pd, c.c))
		require.Equal(t, g, m.Region(), c.name)
		require.True(t, r.localOK(r.pd, g.LKey, g.Addr, 40, true), c.name)
	}
	require.NoError(t, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: allRights}))
	g = m.Region()
	_, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Length: 1, Access: ci.RemoteRead})
	require.Equal(t, ci.WCSuccess, st)
	requireStatus(t, ci.ResourceBusy, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{}))
	requireStatus(t, ci.ResourceBusy, m.Destroy())
	require.True(t, r.localOK(r.pd, g.LKey, g.Addr, 40, true))
	r.destroy(w)

	f, err := r.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	requireStatus(t, ci.InvalidParameter, f.Modify(ci.MRFieldAccess, nil, ci.MRCreate{}))
	r.destroy(f, m)
	r.close()
	o.close()
}

// To and from physical storage; the references to the DMA mapping follow.
func TestModifyPMR(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 3*4096)
	d := r.mapDMA(ci.Bytes(b))
	m := r.register(make([]byte, 8), ci.LocalWrite)
	c := ci.PMRCreate{Ranges: d.Ranges(), PageSize: 4096, Length: 3 * 4096, IOVA: 0x5000}
	requireStatus(t, ci.InvalidParameter, m.ModifyPMR(ci.MRFieldMemory, nil, ci.PMRCreate{}))
	require.NoError(t, m.ModifyPMR(ci.MRFieldMemory, nil, c))
	requireStatus(t, ci.ResourceBusy, d.Destroy())
	g := m.Region()
	require.EqualValues(t, 0x5000, g.Addr)
	require.NoError(t, m.ModifyPMR(ci.MRFieldPD, r.pd2, c), "only what set names counts")
	requireStatus(t, ci.ResourceBusy, d.Destroy())
	var h holds
	require.NoError(t, r.at(&h, r.pd2, m.Region(), 4095, 2).write([]byte{1, 2}))
	h.release()
	require.Equal(t, []byte{1, 2}, b[4095:4097])
	require.NoError(t, m.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(make([]byte, 8))}))
	r.destroy(d, m)
	r.close()
}

func TestRegisterSMR(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 100)
	src := r.register(b, ci.LocalWrite)
	g := src.Region()
	o, err := r.pd2.RegisterSMR(wrappedMR{src}, 0, ci.RemoteRead|ci.LocalWrite)
	require.NoError(t, err)
	s := o.Region()
	require.Equal(t, g.Addr, s.Addr)
	require.Equal(t, g.Length, s.Length)
	require.NotEqual(t, g.LKey>>8, s.LKey>>8)
	a, err := o.Query()
	require.NoError(t, err)
	require.Equal(t, ci.MRAttr{Region: s, PD: r.pd2, Access: ci.RemoteRead | ci.LocalWrite, LocalLo: s.Addr,
		LocalHi:  s.Addr + 100,
		RemoteLo: s.Addr, RemoteHi: s.Addr + 100}, a)

	// Both keys access the same bytes, each in its own domain.
	require.False(t, r.localOK(r.pd, s.LKey, s.Addr, 1, false))
	require.False(t, r.localOK(r.pd2, g.LKey, g.Addr, 1, false))
	var h holds
	require.NoError(t, r.at(&h, r.pd2, s, 7, 3).write([]byte{1, 2, 3}))
	got := make([]byte, 3)
	require.NoError(t, r.at(&h, r.pd, g, 7, 3).read(got))
	require.Equal(t, []byte{1, 2, 3}, got)
	h.release()

	// A requested address: the result has the same offset in its page as the storage.
	o2, err := r.pd.RegisterSMR(o, 0x7f0000, ci.LocalWrite)
	require.NoError(t, err)
	require.Equal(t, 0x7f0000|g.Addr&0xfff, o2.Region().Addr)
	o3, err := r.pd.RegisterSMR(o, 0, ci.ZeroBased)
	require.NoError(t, err)
	require.Zero(t, o3.Region().Addr)
	require.True(t, r.localOK(r.pd, o3.Region().LKey, 0, 100, false))

	requireStatus(t, ci.ResourceBusy, src.Destroy())
	requireStatus(t, ci.ResourceBusy, o.Destroy())
	other := newMemRig(t, nil)
	fast, err := r.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	for _, c := range []struct {
		src    ci.MR
		iova   uint64
		access ci.Access
		pd     *PD
		want   ci.Status
	}{
		{nil, 0, 0, r.pd, ci.InvalidMRHandle},
		{(*MR)(nil), 0, 0, r.pd, ci.InvalidMRHandle},
		{src, 0, 0, other.pd, ci.InvalidMRHandle},
		{fast, 0, 0, r.pd, ci.InvalidMRHandle},
		{src, 0, ci.RemoteWrite, r.pd, ci.InvalidPermission},
		{src, 0, 1 << 30, r.pd, ci.InvalidParameter},
		{src, math.MaxUint64, 0, r.pd, ci.InvalidParameter},
	} {
		if c.iova != 0 && g.Addr&0xfff < 0xf9c { // the end of the highest page is long enough
			continue
		}
		m, err := c.pd.RegisterSMR(c.src, c.iova, c.access)
		requireStatus(t, c.want, err)
		require.Nil(t, m)
	}
	// A shared region that gets storage of its own releases its source.
	require.NoError(t, o.Modify(ci.MRFieldMemory, nil, ci.MRCreate{Memory: ci.Bytes(make([]byte, 8))}))
	require.NoError(t, src.Destroy())
	require.True(t, r.localOK(r.pd, o2.Region().LKey, o2.Region().Addr, 100, true),
		"the last region over the storage still works")
	r.destroy(o2, o3, o, fast)
	r.close()
	other.close()
}
