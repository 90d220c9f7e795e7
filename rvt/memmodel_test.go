package rvt

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

// The model of the memory verbs is a list of what each key permits, in which accesses are looked up. It has no slots,
// generations or holds.
type memModel struct {
	*memRig
	t     *rapid.T
	grant []*modelGrant // all keys that ever existed; old ones stay, so that stale keys are tried repeatedly
	mrs   []*modelMR
	mws   []*modelMW
	store []*[64]byte
	dma   *DMA
	page  *[4096]byte
}

type modelGrant struct {
	alive    bool
	key      ci.Key
	pd       *PD
	q        *QP // nil: any QP of pd
	addr, n  uint64
	access   ci.Access
	isWindow bool
	b        []byte
}

type modelMR struct {
	mr        *MR
	g         *modelGrant // nil: a fast registration region without mapping
	source    *modelMR
	fast      bool
	destroyed bool
}

type modelMW struct {
	mw        *MW
	g         *modelGrant
	over      *modelMR
	destroyed bool
}

func (m *memModel) live(g *modelGrant) *modelGrant {
	g.alive = true
	m.grant = append(m.grant, g)
	return g
}

func (m *memModel) deps(r *modelMR) (windows, shares int) {
	for _, w := range m.mws {
		if !w.destroyed && w.over == r {
			windows++
		}
	}
	for _, s := range m.mrs {
		if !s.destroyed && s.source == r {
			shares++
		}
	}
	return
}

func (m *memModel) pickPD() *PD { return rapid.SampledFrom([]*PD{m.pd, m.pd2}).Draw(m.t, "pd") }
func (m *memModel) pickQP() *QP { return rapid.SampledFrom([]*QP{m.q, m.q2, m.other}).Draw(m.t, "qp") }

func (m *memModel) access() ci.Access {
	a := ci.Access(0)
	for _, bit := range []ci.Access{ci.RemoteRead, ci.RemoteWrite, ci.RemoteAtomic, ci.LocalWrite, ci.BindWindow} {
		if rapid.Bool().Draw(m.t, "right") {
			a |= bit
		}
	}
	if rapid.IntRange(0, 3).Draw(m.t, "zero based") == 0 {
		a |= ci.ZeroBased
	}
	return a
}

func legal(a ci.Access) bool {
	return a&(ci.RemoteWrite|ci.RemoteAtomic) == 0 || a&ci.LocalWrite != 0
}

// adopt adds a new region to the model, or checks the error against the rights.
func (m *memModel) adopt(o ci.MR, err error, pd *PD, a ci.Access, b []byte, source *modelMR) {
	if !legal(a) {
		require.Equal(m.t, ci.InvalidPermission, ci.StatusOf(err))
		return
	}
	require.NoError(m.t, err)
	g := o.Region()
	m.mrs = append(m.mrs, &modelMR{mr: o.(*MR), source: source,
		g: m.live(&modelGrant{key: g.LKey, pd: pd, addr: g.Addr, n: g.Length,
			access: a, b: b})})
}

func (m *memModel) register() {
	s := new([64]byte)
	m.store = append(m.store, s)
	off := rapid.Uint64Range(0, 63).Draw(m.t, "offset")
	n := rapid.Uint64Range(1, 64-off).Draw(m.t, "length")
	a, pd := m.access(), m.pickPD()
	o, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(s[:]), Offset: off, Length: n, Access: a})
	m.adopt(o, err, pd, a, s[off:off+n], nil)
}

func (m *memModel) registerPMR() {
	off := rapid.Uint64Range(0, 4095).Draw(m.t, "offset")
	n := rapid.Uint64Range(1, 4096-off).Draw(m.t, "length")
	a, pd := m.access(), m.pickPD()
	o, err := pd.RegisterPMR(ci.PMRCreate{Ranges: m.dma.Ranges(), PageSize: 4096, Offset: off, Length: n,
		IOVA: 0x8000, Access: a})
	m.adopt(o, err, pd, a, m.page[off:off+n], nil)
}

func (m *memModel) pickMR() *modelMR {
	if len(m.mrs) == 0 {
		m.t.Skip("no region")
	}
	return m.mrs[rapid.IntRange(0, len(m.mrs)-1).Draw(m.t, "mr")]
}

func (m *memModel) share() {
	src, a, pd := m.pickMR(), m.access(), m.pickPD()
	o, err := pd.RegisterSMR(src.mr, 0, a)
	if src.destroyed || src.fast {
		require.Equal(m.t, ci.InvalidMRHandle, ci.StatusOf(err))
		return
	}
	m.adopt(o, err, pd, a, src.g.b, src)
}

func (m *memModel) allocFast() {
	pd := m.pickPD()
	o, err := pd.AllocFastRegMR(1)
	require.NoError(m.t, err)
	m.mrs = append(m.mrs, &modelMR{mr: o.(*MR), fast: true})
}

func (m *memModel) fastReg() {
	r, q, a := m.pickMR(), m.pickQP(), m.access()
	off := rapid.Uint32Range(0, 4095).Draw(m.t, "offset")
	n := rapid.Uint64Range(1, uint64(4096-off)).Draw(m.t, "length")
	f := ci.FastReg{Pages: []uint64{m.dma.Ranges()[0].Addr}, PageShift: 12, Offset: off, Length: n,
		IOVA: 0x4000 + uint64(off),
		Key:  r.mr.Region().LKey&^0xff | ci.Key(rapid.Byte().Draw(m.t, "variant")), Access: a}
	st := m.h.fastReg(&q.endpoint, &WorkExt{MR: r.mr, FastReg: f})
	if r.destroyed || !r.fast || r.g != nil || r.mr.pd != q.pd || !legal(a) {
		require.Equal(m.t, ci.WCBindErr, st)
		return
	}
	require.Equal(m.t, ci.WCSuccess, st)
	base := f.IOVA
	if a&ci.ZeroBased != 0 {
		base = 0
	}
	r.g = m.live(&modelGrant{key: f.Key, pd: q.pd, addr: base, n: n, access: a, b: m.page[off : uint64(off)+n]})
}

func (m *memModel) modify() {
	r, a, pd := m.pickMR(), m.access(), m.pickPD()
	set := ci.MRField(rapid.IntRange(1, 3).Draw(m.t, "set")) << 1 // PD, access, both (3<<1 has bits 1 and 2)
	set &= ci.MRFieldPD | ci.MRFieldAccess
	err := r.mr.Modify(set, pd, ci.MRCreate{Access: a})
	windows, _ := m.deps(r)
	switch {
	case r.destroyed:
		require.Equal(m.t, ci.InvalidMRHandle, ci.StatusOf(err))
	case r.fast:
		require.Equal(m.t, ci.InvalidParameter, ci.StatusOf(err))
	case windows > 0:
		require.Equal(m.t, ci.ResourceBusy, ci.StatusOf(err))
	case set&ci.MRFieldAccess != 0 && !legal(a):
		require.Equal(m.t, ci.InvalidPermission, ci.StatusOf(err))
	default:
		require.NoError(m.t, err)
		n := *r.g
		r.g.alive = false
		if set&ci.MRFieldAccess != 0 {
			n.access = a
		}
		if set&ci.MRFieldPD != 0 {
			n.pd = pd
		}
		g := r.mr.Region()
		require.NotEqual(m.t, n.key, g.LKey)
		n.key, n.addr = g.LKey, g.Addr
		r.g = m.live(&n)
	}
}

func (m *memModel) destroyMR() {
	r := m.pickMR()
	windows, shares := m.deps(r)
	err := r.mr.Destroy()
	switch {
	case r.destroyed:
		require.Equal(m.t, ci.InvalidMRHandle, ci.StatusOf(err))
	case windows+shares > 0:
		require.Equal(m.t, ci.ResourceBusy, ci.StatusOf(err))
	default:
		require.NoError(m.t, err)
		r.destroyed = true
		if r.g != nil {
			r.g.alive = false
		}
	}
}

func (m *memModel) createMW() {
	o, err := m.pickPD().CreateMW(ci.MWCreate{Type: rapid.SampledFrom([]ci.MWType{ci.MWType1, ci.MWType2}).Draw(m.t,
		"type")})
	require.NoError(m.t, err)
	m.mws = append(m.mws, &modelMW{mw: o.(*MW)})
}

func (m *memModel) pickMW() *modelMW {
	if len(m.mws) == 0 {
		m.t.Skip("no window")
	}
	return m.mws[rapid.IntRange(0, len(m.mws)-1).Draw(m.t, "mw")]
}

func (m *memModel) bind() {
	w, r, q := m.pickMW(), m.pickMR(), m.pickQP()
	if w.destroyed {
		m.t.Skip("destroyed")
	}
	var b ci.MWBind
	b.Access = m.access() & (ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic | ci.ZeroBased)
	isZeroBased, isTwo := b.Access&ci.ZeroBased != 0, w.mw.typ == ci.MWType2
	inside := false
	var off uint64
	if r.g != nil {
		off = rapid.Uint64Range(0, 70).Draw(m.t, "offset")
		b.Length = rapid.Uint64Range(0, 70).Draw(m.t, "length")
		b.Addr = r.g.addr + off
		inside = off+b.Length <= r.g.n
	} else {
		b.Length = 1
	}
	before := w.mw.Key()
	if isTwo {
		b.Key = ci.Key(rapid.Uint32().Draw(m.t, "key of the consumer"))
	}
	key, st := m.memRig.bind(q, w.mw, r.mr, b)
	key = before&^0xff | key&0xff
	ok := w.mw.pd == q.pd && (isTwo && w.g == nil && b.Length > 0 || !isTwo && !isZeroBased)
	if b.Length > 0 {
		ok = ok && !r.destroyed && r.g != nil && r.g.alive && inside && r.g.pd == q.pd &&
			r.g.access&(ci.BindWindow|ci.ZeroBased) == ci.BindWindow &&
			(b.Access&(ci.RemoteWrite|ci.RemoteAtomic) == 0 || r.g.access&ci.LocalWrite != 0)
	}
	if !ok {
		require.Equal(m.t, ci.WCBindErr, st)
		return
	}
	require.Equal(m.t, ci.WCSuccess, st)
	m.unbind(w)
	if b.Length > 0 {
		if isZeroBased {
			b.Addr = 0
		}
		w.g = m.live(&modelGrant{key: key, pd: q.pd, addr: b.Addr, n: b.Length, access: b.Access, isWindow: true,
			b: r.g.b[off : off+b.Length]})
		if isTwo {
			w.g.q = q
		}
		w.over = r
	}
}

func (m *memModel) unbind(w *modelMW) {
	if w.g != nil {
		w.g.alive = false
	}
	w.g, w.over = nil, nil
}

func (m *memModel) destroyMW() {
	w := m.pickMW()
	err := w.mw.Destroy()
	if w.destroyed {
		require.Equal(m.t, ci.InvalidMWHandle, ci.StatusOf(err))
		return
	}
	require.NoError(m.t, err)
	m.unbind(w)
	w.destroyed = true
}

func (m *memModel) invalidate() {
	if len(m.grant) == 0 {
		m.t.Skip("no key")
	}
	g, q := m.pickGrant(), m.pickQP()
	var ok bool
	if rapid.Bool().Draw(m.t, "by the peer") {
		ok = m.h.keys.invalidate(&q.endpoint, g.key)
	} else {
		ok = m.h.localInv(&q.endpoint, g.key) == ci.WCSuccess
	}
	for _, r := range m.mrs {
		if r.fast && !r.destroyed && r.mr.pd == q.pd && r.mr.Region().LKey == g.key {
			windows, _ := m.deps(r)
			require.Equal(m.t, windows == 0, ok)
			if ok && r.g != nil {
				r.g.alive = false
				r.g = nil
			}
			return
		}
	}
	for _, w := range m.mws {
		if w.mw.typ == ci.MWType2 && w.g != nil && w.g.key == g.key && w.g.q == q {
			require.True(m.t, ok)
			m.unbind(w)
			return
		}
	}
	require.False(m.t, ok, "key %x", g.key)
}

func (m *memModel) pickGrant() *modelGrant {
	return m.grant[rapid.IntRange(0, len(m.grant)-1).Draw(m.t, "key")]
}

// access accesses one key, valid or not, at a place in or near its range, and compares the result with the list.
func (m *memModel) use() {
	if len(m.grant) == 0 {
		m.t.Skip("no key")
	}
	k, q := m.pickGrant(), m.pickQP()
	addr := k.addr + rapid.Uint64Range(0, 80).Draw(m.t, "offset") - 8
	n := rapid.Uint64Range(1, 80).Draw(m.t, "length")
	need := rapid.SampledFrom([]ci.Access{ci.RemoteRead, ci.RemoteWrite, ci.RemoteAtomic, 0, ci.LocalWrite}).Draw(m.t,
		"need")
	local := need&remoteRights == 0

	var want []byte
	for _, g := range m.grant {
		if g.alive && g.key == k.key && g.pd == q.pd && g.access&need == need && !(local && g.isWindow) &&
			(g.q == nil || g.q == q) &&
			addr-g.addr < g.n && n <= g.n-(addr-g.addr) {
			want = g.b[addr-g.addr:][:n]
		}
	}
	var h holds
	defer h.release()
	var at mem
	var ok bool
	if local {
		var st ci.WCStatus
		at, st = h.local(&m.h.keys, q.pd, ci.SGE{Addr: addr, Length: uint32(n), LKey: k.key}, need != 0)
		ok = st == ci.WCSuccess
	} else {
		at, ok = h.remote(&m.h.keys, &q.endpoint, k.key, addr, n, need)
	}
	require.Equal(m.t, want != nil, ok, "key %x addr %x n %d need %b", k.key, addr, n, need)
	if !ok {
		return
	}
	segs, ok := at.slices(nil, uint32(n))
	require.True(m.t, ok)
	require.Len(m.t, segs, 1)
	require.True(m.t, &segs[0][0] == &want[0] && len(segs[0]) == len(want), "other bytes than the region's")
}

func (m *memModel) check() {
	for i, r := range m.mrs {
		if r.destroyed {
			continue
		}
		a, err := r.mr.Query()
		require.NoError(m.t, err)
		name := fmt.Sprint("region ", i)
		if r.g == nil {
			require.Zero(m.t, a.LocalHi, name)
			continue
		}
		require.Equal(m.t, r.g.key, a.LKey, name)
		require.Equal(m.t, r.g.addr, a.LocalLo, name)
		require.Equal(m.t, r.g.addr+r.g.n, a.LocalHi, name)
		require.Equal(m.t, r.g.access, a.Access, name)
		require.True(m.t, ci.Same(r.g.pd, a.PD), name)
	}
}

func TestMemModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &memModel{memRig: newMemRig(t, nil), t: t, page: new([4096]byte)}
		m.dma = m.mapDMA(ci.Bytes(m.page[:]))
		do := func(f func()) func(*rapid.T) {
			return func(t *rapid.T) { m.t, m.memRig.t = t, t; f() }
		}
		t.Repeat(map[string]func(*rapid.T){
			"":          do(m.check),
			"register":  do(m.register),
			"physical":  do(m.registerPMR),
			"share":     do(m.share),
			"allocFast": do(m.allocFast),
			"fastReg":   do(m.fastReg),
			"modify":    do(m.modify),
			"destroyMR": do(m.destroyMR),
			"createMW":  do(m.createMW),
			"bind":      do(m.bind),
			"bind more": do(m.bind),
			"destroyMW": do(m.destroyMW),
			"inv":       do(m.invalidate),
			"use":       do(m.use),
			"use more":  do(m.use),
			"use most":  do(m.use),
		})
		m.t, m.memRig.t = t, t
		// Everything is destroyed in some order that respects dependencies, and nothing is left.
		for _, w := range m.mws {
			if !w.destroyed {
				require.NoError(t, w.mw.Destroy())
			}
		}
		for _, v := range slices.Backward(m.mrs) { // a shared region is destroyed before its source
			if !v.destroyed {
				require.NoError(t, v.mr.Destroy())
			}
		}
		require.NoError(t, m.dma.Destroy())
		m.close()
	})
}
