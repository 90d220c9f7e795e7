package rvt

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestCreateMW(t *testing.T) {
	for _, c := range []struct {
		caps ci.Caps
		typ  ci.MWType
		want ci.Status
	}{
		{ci.CapMW1 | ci.CapMW2, 0, ci.InvalidParameter},
		{ci.CapMW1 | ci.CapMW2, 3, ci.InvalidParameter},
		{ci.CapMW1, ci.MWType2, ci.Unsupported},
		{ci.CapMW2, ci.MWType1, ci.Unsupported},
		{0, ci.MWType1, ci.Unsupported},
		{0, 7, ci.Unsupported},
		{ci.CapMW1, ci.MWType1, ci.Success},
		{ci.CapMW2, ci.MWType2, ci.Success},
	} {
		r := newMemRig(t, func(cfg *Config) { cfg.Attr.Caps = c.caps })
		ub := &ci.UserBuffer{Status: 9, Out: make([]byte, 4)}
		w, err := r.pd.CreateMW(ci.MWCreate{Type: c.typ, User: ub})
		if c.want != ci.Success {
			requireStatus(t, c.want, err)
			require.Nil(t, w)
			require.EqualValues(t, 9, ub.Status)
			r.close()
			continue
		}
		require.NoError(t, err)
		require.Equal(t, &ci.UserBuffer{Out: []byte{}}, ub)
		a, err := w.Query()
		require.NoError(t, err)
		require.Equal(t, ci.MWAttr{PD: r.pd, Type: c.typ, Key: w.Key()}, a)
		require.NotZero(t, w.Key())
		require.False(t, r.remoteOK(r.q, w.Key(), 0, 1, ci.RemoteRead), "an unbound window gives nothing")
		requireStatus(t, ci.ResourceBusy, r.pd.Destroy())
		r.destroy(w)
		requireStatus(t, ci.InvalidMWHandle, w.Destroy())
		_, err = w.Query()
		requireStatus(t, ci.InvalidMWHandle, err)
		r.close()
	}
}

func TestBindType1(t *testing.T) {
	r := newMemRig(t, nil)
	m, m2 := r.register(make([]byte, 100), ci.LocalWrite|ci.BindWindow), r.register(make([]byte, 100), ci.BindWindow)
	g := m.Region()
	w := r.window(ci.MWType1)
	unbound := w.Key()

	key, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr + 10, Length: 20, Access: ci.RemoteRead | ci.RemoteWrite})
	require.Equal(t, ci.WCSuccess, st)
	require.NotEqual(t, unbound, key)
	require.Equal(t, key, w.Key())
	for _, c := range []struct {
		q       *QP
		off, n  uint64
		need    ci.Access
		allowed bool
	}{
		{r.q, 10, 20, ci.RemoteRead, true},
		{r.q2, 10, 20, ci.RemoteWrite, true}, // any QP of the domain
		{r.q, 10, 8, ci.RemoteAtomic, false},
		{r.other, 10, 20, ci.RemoteRead, false},
		{r.q, 9, 2, ci.RemoteRead, false},
		{r.q, 10, 21, ci.RemoteRead, false},
		{r.q, 29, 1, ci.RemoteRead, true},
		{r.q, 30, 1, ci.RemoteRead, false},
		{r.q, 11, math.MaxUint64, ci.RemoteRead, false},
	} {
		require.Equal(t, c.allowed, r.remoteOK(c.q, key, g.Addr+c.off, c.n, c.need), "%+v", c)
	}
	require.False(t, r.localOK(r.pd, key, g.Addr+10, 1, false), "a window's key is no L_Key")
	require.False(t, r.remoteOK(r.q, g.LKey, g.Addr, 1, ci.RemoteRead), "the region has no remote rights of its own")
	var h holds
	at, ok := h.remote(&r.h.keys, &r.q.endpoint, key, g.Addr+10, 3, ci.RemoteWrite)
	require.True(t, ok)
	require.NoError(t, at.write([]byte{1, 2, 3}))
	got := make([]byte, 4)
	require.NoError(t, r.at(&h, r.pd, g, 9, 4).read(got))
	require.Equal(t, []byte{0, 1, 2, 3}, got)
	h.release()

	// To another region: the key changes, and the first region is free.
	requireStatus(t, ci.ResourceBusy, m.Destroy())
	key2, st := r.bind(r.q, w, m2, ci.MWBind{Addr: m2.Region().Addr, Length: 100, Access: ci.RemoteRead})
	require.Equal(t, ci.WCSuccess, st)
	require.False(t, r.remoteOK(r.q, key, g.Addr+10, 1, ci.RemoteRead), "the key from before")
	require.True(t, r.remoteOK(r.q, key2, m2.Region().Addr, 100, ci.RemoteRead))
	require.NoError(t, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite | ci.BindWindow}))
	g = m.Region()

	// Failed binds leave the window unchanged.
	plain := r.register(make([]byte, 100), ci.LocalWrite)
	foreign, err := r.pd2.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 100)), Access: allRights})
	require.NoError(t, err)
	destroyed := r.register(make([]byte, 100), allRights)
	r.destroy(destroyed)
	fast, err := r.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		q    *QP
		mr   *MR
		b    ci.MWBind
		post ci.Status // errors that checkBind reports at the post
	}{
		{"no region", r.q, nil, ci.MWBind{Length: 1}, ci.Success},
		{"without BindWindow", r.q, plain, ci.MWBind{Addr: plain.Region().Addr, Length: 1}, ci.InvalidPermission},
		{"write without LocalWrite", r.q, m2, ci.MWBind{Addr: m2.Region().Addr, Length: 1, Access: ci.RemoteWrite},
			ci.InvalidPermission},
		{"atomic without LocalWrite", r.q, m2, ci.MWBind{Addr: m2.Region().Addr, Length: 1, Access: ci.RemoteAtomic},
			ci.InvalidPermission},
		{"local right", r.q, m, ci.MWBind{Addr: g.Addr, Length: 1, Access: ci.LocalWrite}, ci.InvalidParameter},
		{"unknown right", r.q, m, ci.MWBind{Addr: g.Addr, Length: 1, Access: 1 << 10}, ci.InvalidParameter},
		{"region of another domain", r.q, foreign.(*MR), ci.MWBind{Addr: foreign.Region().Addr, Length: 1},
			ci.InvalidPermission},
		{"QP of another domain", r.other, m, ci.MWBind{Addr: g.Addr, Length: 1}, ci.InvalidPermission},
		{"QP of another domain, unbind", r.other, nil, ci.MWBind{}, ci.InvalidPermission},
		{"region destroyed", r.q, destroyed, ci.MWBind{Addr: destroyed.Region().Addr, Length: 1}, ci.InvalidMRHandle},
		{"region not mapped", r.q, fast.(*MR), ci.MWBind{Length: 1}, ci.Success},
		{"beyond the region", r.q, m, ci.MWBind{Addr: g.Addr + 1, Length: 100}, ci.Success},
		{"before the region", r.q, m, ci.MWBind{Addr: g.Addr - 1, Length: 2}, ci.Success},
		{"wraps", r.q, m, ci.MWBind{Addr: g.Addr + 1, Length: math.MaxUint64}, ci.Success},
	} {
		if c.mr != nil || c.b.Length == 0 { // BindMW rejects others
			require.Equal(t, c.post, w.checkBind(&c.q.endpoint, c.mr, &c.b), c.name)
		}
		_, st := r.bind(c.q, w, c.mr, c.b)
		require.Equal(t, ci.WCBindErr, st, c.name)
		require.Equal(t, key2, w.Key(), c.name)
		require.True(t, r.remoteOK(r.q, key2, m2.Region().Addr, 100, ci.RemoteRead), c.name)
	}
	require.Zero(t, m.refs.Count(), "a failed bind left a reference")
	require.Equal(t, ci.Status(ci.Success), w.checkBind(&r.q.endpoint, m, &ci.MWBind{Addr: g.Addr, Length: 1,
		Access: ci.RemoteWrite}))
	require.Equal(t, ci.Status(ci.Success), w.checkBind(&r.q.endpoint, nil, &ci.MWBind{}))
	require.Equal(t, ci.WCBindErr, r.h.bindMW(&r.q.endpoint, nil))
	require.Equal(t, ci.WCBindErr, r.h.bindMW(&r.q.endpoint, &WorkExt{}))

	// Unbind.
	key3, st := r.bind(r.q, w, nil, ci.MWBind{})
	require.Equal(t, ci.WCSuccess, st)
	require.False(t, r.remoteOK(r.q, key2, m2.Region().Addr, 1, ci.RemoteRead))
	require.False(t, r.remoteOK(r.q, key3, m2.Region().Addr, 1, ci.RemoteRead))
	require.NoError(t, m2.Destroy())

	// Destroy of a bound window unbinds it.
	key4, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Length: 1, Access: ci.RemoteRead})
	require.Equal(t, ci.WCSuccess, st)
	r.destroy(w)
	require.False(t, r.remoteOK(r.q, key4, g.Addr, 1, ci.RemoteRead))
	require.Equal(t, ci.WCBindErr,
		r.h.bindMW(&r.q.endpoint, &WorkExt{MW: w, MR: m, Bind: ci.MWBind{Addr: g.Addr, Length: 1, Key: key4}}))
	require.Equal(t, ci.InvalidMWHandle, w.checkBind(&r.q.endpoint, m, &ci.MWBind{}))
	_, ok = w.nextKey(w.Key())
	require.False(t, ok)
	r.destroy(m, plain, foreign, fast)
	r.close()
}

// Several binds are queued; some are never executed.
func TestBindQueue(t *testing.T) {
	r := newMemRig(t, nil)
	m := r.register(make([]byte, 100), allRights)
	g := m.Region()
	w := r.window(ci.MWType1)
	k0 := w.Key()
	_, ok := w.nextKey(k0 ^ 1)
	require.False(t, ok, "not the current key")
	k1, ok := w.nextKey(k0)
	require.True(t, ok)
	_, ok = w.nextKey(k0)
	require.False(t, ok, "not current any more")
	k2, ok := w.nextKey(k1)
	require.True(t, ok)
	k3, ok := w.nextKey(k2)
	require.True(t, ok)
	run := func(k ci.Key, n uint64) ci.WCStatus {
		return r.h.bindMW(&r.q.endpoint, &WorkExt{MW: w, MR: m, Bind: ci.MWBind{Addr: g.Addr, Length: n, Key: k,
			Access: ci.RemoteRead}})
	}
	works := func(k ci.Key) bool { return r.remoteOK(r.q, k, g.Addr, 1, ci.RemoteRead) }
	require.Equal(t, ci.WCSuccess, run(k1, 100))
	require.True(t, works(k1))
	require.False(t, works(k2))
	require.Equal(t, k3, w.Key())
	require.Equal(t, ci.WCBindErr, run(k2, 101))
	require.True(t, works(k1))
	w.dropKey(k3) // flushed
	require.Equal(t, k1, w.Key(), "the key in effect is current again")
	k4, ok := w.nextKey(k1)
	require.True(t, ok)
	require.Equal(t, ci.WCSuccess, run(k4, 100))
	require.True(t, works(k4))
	require.False(t, works(k1))
	require.Equal(t, ci.WCSuccess, run(k4^0x100, 100), "the index of a key is not used")
	require.True(t, works(k4))
	r.destroy(w, m)
	r.close()
}

// No variant is repeated within 256 binds.
func TestBindVariants(t *testing.T) {
	r := newMemRig(t, nil)
	w := r.window(ci.MWType1)
	seen := map[ci.Key]bool{w.Key(): true}
	for range 255 {
		k, ok := w.nextKey(w.Key())
		require.True(t, ok)
		require.False(t, seen[k])
		seen[k] = true
	}
	require.Len(t, seen, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if k, ok := w.nextKey(w.Key()); ok {
			w.dropKey(k)
		}
	}))
	r.destroy(w)
	r.close()
}

func TestBindType2(t *testing.T) {
	r := newMemRig(t, nil)
	m := r.register(make([]byte, 100), allRights)
	g := m.Region()
	w := r.window(ci.MWType2)
	_, ok := w.nextKey(w.Key())
	require.False(t, ok, "type 2 keys are the consumer's")
	key := w.Key()&^0xff | 0x42
	b := ci.MWBind{Addr: g.Addr, Length: 50, Key: key, Access: ci.RemoteRead}
	b.Key ^= 0xabcdef00 // the upper bits are the window's
	_, st := r.bind(r.q, w, m, b)
	require.Equal(t, ci.WCSuccess, st)
	b.Key = key
	require.Equal(t, key, w.Key())
	require.True(t, r.remoteOK(r.q, key, g.Addr, 50, ci.RemoteRead))
	require.False(t, r.remoteOK(r.q2, key, g.Addr, 50, ci.RemoteRead), "only through the QP that bound it")
	b.Key++
	_, st = r.bind(r.q, w, m, b)
	require.Equal(t, ci.WCBindErr, st, "bound: to be invalidated first")

	require.False(t, r.h.keys.invalidate(&r.q2.endpoint, key), "through another QP")
	require.False(t, r.h.keys.invalidate(&r.other.endpoint, key))
	require.False(t, r.h.keys.invalidate(&r.q.endpoint, key^1))
	require.True(t, r.remoteOK(r.q, key, g.Addr, 50, ci.RemoteRead))
	require.True(t, r.h.keys.invalidate(&r.q.endpoint, key))
	require.False(t, r.remoteOK(r.q, key, g.Addr, 1, ci.RemoteRead))
	require.Equal(t, ci.WCBindErr, r.h.localInv(&r.q.endpoint, key), "nothing is bound")

	_, st = r.bind(r.q2, w, m, b)
	require.Equal(t, ci.WCSuccess, st)
	require.True(t, r.remoteOK(r.q2, b.Key, g.Addr, 50, ci.RemoteRead))
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q2.endpoint, b.Key))
	_, st = r.bind(r.q, w, m, b)
	require.Equal(t, ci.WCSuccess, st)
	_, st = r.bind(r.q, w, nil, ci.MWBind{Key: b.Key})
	require.Equal(t, ci.WCBindErr, st, "length 0")
	require.True(t, r.remoteOK(r.q, b.Key, g.Addr, 1, ci.RemoteRead))
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, b.Key))
	_, st = r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Key: b.Key})
	require.Equal(t, ci.WCBindErr, st, "length 0")
	_, st = r.bind(r.q, w, m, b)
	require.Equal(t, ci.WCSuccess, st, "the key of the last bind")
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, b.Key))

	// A zero-based window of type 2.
	zero := ci.MWBind{Addr: g.Addr + 10, Length: 50, Key: key, Access: ci.RemoteRead | ci.ZeroBased}
	_, st = r.bind(r.q, w, m, zero)
	require.Equal(t, ci.WCSuccess, st)
	for _, x := range []struct {
		at, n   uint64
		allowed bool
	}{{0, 50, true}, {49, 1, true}, {50, 1, false}, {0, 51, false}, {g.Addr + 10, 1, false}, {math.MaxUint64, 2,
		false}} {
		require.Equal(t, x.allowed, r.remoteOK(r.q, key, x.at, x.n, ci.RemoteRead), "%+v", x)
	}
	var h holds
	at, ok := h.remote(&r.h.keys, &r.q.endpoint, key, 3, 1, ci.RemoteRead)
	require.True(t, ok)
	require.EqualValues(t, 13, at.off)
	h.release()
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, key))
	based := r.register(make([]byte, 100), allRights|ci.ZeroBased)
	_, st = r.bind(r.q, w, based, ci.MWBind{Length: 50, Key: key, Access: ci.RemoteRead})
	require.Equal(t, ci.WCBindErr, st, "a zero-based region")
	r.h.attr.Caps &^= ci.CapZeroBased
	_, st = r.bind(r.q, w, m, zero)
	require.Equal(t, ci.WCBindErr, st, "without the capability")
	r.h.attr.Caps |= ci.CapZeroBased
	r.destroy(based)

	// A peer or a request cannot invalidate the key of a type 1 window.
	w1 := r.window(ci.MWType1)
	_, st = r.bind(r.q, w1, m, zero)
	require.Equal(t, ci.WCBindErr, st, "a zero-based window of type 1")
	k1, st := r.bind(r.q, w1, m, ci.MWBind{Addr: g.Addr, Length: 1, Access: ci.RemoteRead})
	require.Equal(t, ci.WCSuccess, st)
	require.False(t, r.h.keys.invalidate(&r.q.endpoint, k1))
	require.Equal(t, ci.WCBindErr, r.h.localInv(&r.q.endpoint, k1))
	require.True(t, r.remoteOK(r.q, k1, g.Addr, 1, ci.RemoteRead))
	r.destroy(w, w1, m)
	r.close()
}

// An access through a window holds the region, too. An unbind does not wait for the access, and afterwards only the
// hold keeps the region.
func TestWindowHoldsRegion(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 64)
	m := r.register(b, allRights)
	g := m.Region()
	w := r.window(ci.MWType2)
	key, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Length: 64, Key: w.Key(), Access: ci.RemoteWrite})
	require.Equal(t, ci.WCSuccess, st)
	var h holds
	at, ok := h.remote(&r.h.keys, &r.q.endpoint, key, g.Addr, 64, ci.RemoteWrite)
	require.True(t, ok)
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, key))
	done := make(chan error, 1)
	go func() { done <- m.Destroy() }()
	eventually(t, func() bool { return r.h.keys.find(g.LKey) == nil })
	for range 100 {
		runtime.Gosched()
	}
	select {
	case err := <-done:
		require.NoError(t, err)
		require.FailNow(t, "did not wait")
	default:
	}
	require.NoError(t, at.write([]byte{1}))
	h.release()
	require.NoError(t, <-done)
	r.destroy(w)
	r.close()
}

// A meddler is memory that runs a function while it is being registered.
type meddler struct {
	ci.Memory
	do func()
}

func (m meddler) Slice(off, n uint64) []byte { m.do(); return m.Memory.Slice(off, n) }

// A window is bound, or the region destroyed, between the checks of a Modify and its effect.
func TestModifyMeanwhile(t *testing.T) {
	r := newMemRig(t, nil)
	m := r.register(make([]byte, 64), allRights)
	g := m.Region()
	w := r.window(ci.MWType1)
	change := func(do func()) error {
		return m.Modify(ci.MRFieldMemory|ci.MRFieldPD, r.pd2,
			ci.MRCreate{Memory: meddler{ci.Bytes(make([]byte, 64)), do}})
	}
	requireStatus(t, ci.ResourceBusy, change(func() {
		_, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Length: 1, Access: ci.RemoteRead})
		require.Equal(t, ci.WCSuccess, st)
	}))
	require.Equal(t, g, m.Region())
	require.True(t, r.localOK(r.pd, g.LKey, g.Addr, 64, true))
	require.True(t, r.remoteOK(r.q, w.Key(), g.Addr, 1, ci.RemoteRead))
	r.destroy(w)
	requireStatus(t, ci.InvalidMRHandle, change(func() { r.destroy(m) }))
	r.close()
}
