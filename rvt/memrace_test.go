package rvt

import (
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// hammer runs work on n goroutines until stop is called, which waits for them.
func hammer(n int, work func(i int)) (stop func()) {
	var quit atomic.Bool
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for !quit.Load() {
				work(i)
				runtime.Gosched()
			}
		})
	}
	return func() { quit.Store(true); wg.Wait() }
}

// A writer stores through a remote key if permitted, as a responder does, and counts.
func (r *memRig) writer(q *QP, k ci.Key, addr uint64, b []byte, did *atomic.Int64) {
	var h holds
	if at, ok := h.remote(&r.h.keys, &q.endpoint, k, addr, uint64(len(b)), ci.RemoteWrite); ok {
		if err := at.write(b); err != nil {
			panic(err)
		}
		did.Add(1)
	}
	h.release()
}

// After Destroy, Modify, an unmap or an unbind by MW.Destroy has returned, no byte of the storage changes. The race
// detector would report a race between this test's plain accesses and the writers'; without it, the content shows the
// error.
func TestWithdrawWhileUsed(t *testing.T) {
	const rounds = 60
	ones := []byte{1, 1, 1, 1, 1, 1, 1, 1, 1}
	type round struct {
		key      func() ci.Key
		addr     uint64
		b        []byte
		withdraw func()
		done     func()
	}
	for _, c := range []struct {
		name string
		make func(r *memRig) round
	}{
		{"MR.Destroy", func(r *memRig) round {
			b := make([]byte, 64)
			m := r.register(b, allRights)
			g := m.Region()
			return round{func() ci.Key { return g.RKey }, g.Addr, b, func() { r.destroy(m) }, func() {}}
		}},
		{"MR.Modify, storage", func(r *memRig) round {
			b := make([]byte, 64)
			m := r.register(b, allRights)
			g := m.Region()
			return round{func() ci.Key { return m.Region().RKey }, g.Addr, b, func() {
				c := ci.MRCreate{Memory: ci.Bytes(make([]byte, 4096)), Offset: 0, Length: 64, Access: allRights}
				require.NoError(r.t, m.Modify(ci.MRFieldMemory, nil, c))
			}, func() { r.destroy(m) }}
		}},
		{"MR.Modify, rights", func(r *memRig) round {
			b := make([]byte, 64)
			m := r.register(b, allRights)
			g := m.Region()
			return round{func() ci.Key { return m.Region().LKey }, g.Addr, b, func() {
				require.NoError(r.t, m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: ci.LocalWrite}))
			}, func() { r.destroy(m) }}
		}},
		{"MR.Modify, domain", func(r *memRig) round {
			b := make([]byte, 64)
			m := r.register(b, allRights)
			g := m.Region()
			return round{func() ci.Key { return m.Region().LKey }, g.Addr, b, func() {
				require.NoError(r.t, m.Modify(ci.MRFieldPD, r.pd2, ci.MRCreate{}))
			}, func() { r.destroy(m) }}
		}},
		{"MW.Destroy", func(r *memRig) round {
			b := make([]byte, 64)
			m := r.register(b, ci.LocalWrite|ci.BindWindow)
			g := m.Region()
			w := r.window(ci.MWType1)
			k, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Length: 64, Access: ci.RemoteWrite})
			require.Equal(r.t, ci.WCSuccess, st)
			return round{func() ci.Key { return k }, g.Addr, b, func() { r.destroy(w) }, func() { r.destroy(m) }}
		}},
		{"unbind, MR.Destroy", func(r *memRig) round {
			b := make([]byte, 64)
			m := r.register(b, ci.LocalWrite|ci.BindWindow)
			g := m.Region()
			w := r.window(ci.MWType2)
			k, st := r.bind(r.q, w, m, ci.MWBind{Addr: g.Addr, Length: 64, Key: w.Key(), Access: ci.RemoteWrite})
			require.Equal(r.t, ci.WCSuccess, st)
			return round{func() ci.Key { return k }, g.Addr, b, func() {
				require.Equal(r.t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, k))
				r.destroy(m)
			}, func() { r.destroy(w) }}
		}},
		{"UnmapFMRs", func(r *memRig) round {
			b := make([]byte, 4096)
			d := r.mapDMA(ci.Bytes(b))
			f, err := r.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: allRights})
			require.NoError(r.t, err)
			g, err := f.Map([]uint64{d.Ranges()[0].Addr}, 0x1000)
			require.NoError(r.t, err)
			return round{func() ci.Key { return g.RKey }, g.Addr, b,
				func() { require.NoError(r.t, r.pd.UnmapFMRs([]ci.FMR{f})) },
				func() { r.destroy(f, d) }}
		}},
		{"invalidation, settled", func(r *memRig) round {
			b := make([]byte, 4096)
			d := r.mapDMA(ci.Bytes(b))
			o, err := r.pd.AllocFastRegMR(1)
			require.NoError(r.t, err)
			m := o.(*MR)
			k := m.Region().RKey
			require.Equal(r.t, ci.WCSuccess,
				r.h.fastReg(&r.q.endpoint,
					&WorkExt{MR: m, FastReg: ci.FastReg{Pages: []uint64{d.Ranges()[0].Addr}, PageShift: 12,
						Length: 4096, IOVA: 0x1000, Key: k, Access: allRights}}))
			return round{func() ci.Key { return k }, 0x1000, b, func() {
				require.Equal(r.t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, k))
				again := make(chan struct{}, 1)
				for !r.h.keys.settled(k, func() { again <- struct{}{} }) {
					<-again
				}
			}, func() { r.destroy(d, m) }}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newMemRig(t, nil)
			for range rounds {
				x := c.make(r)
				var did atomic.Int64
				stop := hammer(3, func(i int) { r.writer(r.q, x.key(), x.addr+3+16*uint64(i), ones, &did) })
				eventually(t, func() bool { return did.Load() > 0 })
				x.withdraw()
				clear(x.b) // a race if a writer were still active
				for range 50 {
					for i := range x.b {
						if x.b[i] != 0 {
							stop()
							require.FailNow(t, "storage changed after it was given back")
						}
					}
				}
				stop()
				x.done()
			}
			r.close()
		})
	}
}

// Everything at once in any order. The checks are that nothing is left behind and that the race detector reports
// nothing.
func TestMemVerbsConcurrently(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 4096)
	d := r.mapDMA(ci.Bytes(make([]byte, 8192)))
	m := r.register(b, allRights)
	w := r.window(ci.MWType1)
	w2 := r.window(ci.MWType2)
	fo, err := r.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	f := fo.(*MR)
	fmr, err := r.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 4, PageShift: 12, Access: allRights})
	require.NoError(t, err)
	page := d.Ranges()[0].Addr
	var fmrKey atomic.Uint32
	var binds, maps, regs, mods, did atomic.Int64
	work := []func(){
		func() {
			if m.Modify(ci.MRFieldAccess, nil, ci.MRCreate{Access: allRights}) == nil {
				mods.Add(1)
			}
		},
		func() {
			g := m.Region()
			k, ok := w.nextKey(w.Key())
			if !ok {
				panic("nobody else binds this window")
			}
			if r.h.bindMW(&r.q.endpoint, &WorkExt{MW: w, MR: m, Bind: ci.MWBind{Addr: g.Addr, Length: 4096, Key: k,
				Access: ci.RemoteWrite}}) == ci.WCSuccess {
				binds.Add(1)
			}
			_ = r.h.bindMW(&r.q.endpoint, &WorkExt{MW: w, Bind: ci.MWBind{Key: w.Key()}})
		},
		func() {
			g := m.Region()
			_ = r.h.bindMW(&r.q.endpoint, &WorkExt{MW: w2, MR: m, Bind: ci.MWBind{Addr: g.Addr, Length: 4096,
				Key: w2.Key(), Access: ci.RemoteRead}})
			_ = r.h.keys.invalidate(&r.q.endpoint, w2.Key())
		},
		func() {
			k := f.Region().LKey
			if r.h.fastReg(&r.q.endpoint, &WorkExt{MR: f, FastReg: ci.FastReg{Pages: []uint64{page}, PageShift: 12,
				Length: 4096, Key: k, Access: allRights}}) ==
				ci.WCSuccess {
				regs.Add(1)
			}
			_ = r.h.localInv(&r.q.endpoint, k)
		},
		func() {
			if g, err := fmr.Map([]uint64{page}, 0); err == nil {
				maps.Add(1)
				fmrKey.Store(uint32(g.RKey))
			} else if err := r.pd.UnmapFMRs([]ci.FMR{fmr}); err != nil {
				panic(err)
			}
		},
		func() {
			s, err := r.pd2.RegisterSMR(m, 0, allRights)
			if err == nil {
				g := s.Region()
				r.writer(r.other, g.RKey, g.Addr+8, []byte{1}, &did)
				err = s.Destroy()
			}
			if err != nil {
				panic(err)
			}
		},
		func() { // one writer: two writers of the same bytes would be a race of the test
			g := m.Region()
			r.writer(r.q, g.RKey, g.Addr+100, []byte{1, 2, 3}, &did)
			r.writer(r.q, w.Key(), g.Addr+200, []byte{1, 2, 3}, &did)
			r.writer(r.q, f.Region().RKey, 300, []byte{1, 2, 3}, &did)
			r.writer(r.q, ci.Key(fmrKey.Load()), 400, []byte{1, 2, 3}, &did)
			_, _ = m.Query()
		},
	}
	stop := hammer(len(work), func(i int) { work[i]() })
	eventually(t, func() bool {
		return binds.Load() > 100 && maps.Load() > 100 && regs.Load() > 100 && mods.Load() > 100 && did.Load() > 1000
	})
	stop()
	require.NoError(t, r.pd.UnmapFMRs([]ci.FMR{fmr}))
	r.destroy(fmr, w, w2, f, m, d)
	r.close()
}

// Aliased regions (two registrations, a shared region, a physical one) and the host increment one word together: no
// increment is lost.
func TestAtomicsAlias(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 8*520)
	mem := ci.Bytes(b)
	var keys []ci.Region
	m1, m2 := r.register(b, allRights), r.register(b, allRights|ci.ZeroBased)
	s, err := r.pd.RegisterSMR(m1, 0, allRights)
	require.NoError(t, err)
	d := r.mapDMA(mem)
	p, err := r.pd.RegisterPMR(ci.PMRCreate{Ranges: d.Ranges(), PageSize: 4096, Length: uint64(len(b)),
		Access: allRights})
	require.NoError(t, err)
	for _, m := range []ci.MR{m1, m2, s, p} {
		keys = append(keys, m.Region())
	}
	const each = 3000
	var wg sync.WaitGroup
	for i, g := range keys {
		wg.Go(func() {
			var h holds
			for n := range each {
				at, ok := h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr+8, 8, ci.RemoteAtomic)
				if !ok {
					panic("refused")
				}
				if i%2 == 0 {
					if _, err := at.atomic(wire.OpFetchAdd, 1, 0); err != nil {
						panic(err)
					}
				} else {
					for old := uint64(n); ; { // an increment by compare-swap
						got, err := at.atomic(wire.OpCompareSwap, old+1, old)
						if err != nil {
							panic(err)
						}
						if got == old {
							break
						}
						old = got
					}
				}
				h.release()
			}
		})
	}
	wg.Go(func() {
		for range each {
			hostAdd(b[8:], 1)
		}
	})
	wg.Wait()
	require.EqualValues(t, each*(len(keys)+1), binary.NativeEndian.Uint64(b[8:]))
	r.destroy(p, d, s, m1, m2)
	r.close()
}

// A consumer that spins on the last word of a WRITE sees the whole message when it sees the word (memory model of
// package ci), and the race detector accepts the order.
func TestWriteLastRelease(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 64)
	m := r.register(b, allRights)
	g := m.Region()
	turn := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var h holds
		for n := range uint64(500) {
			msg := make([]byte, 56)
			for i := range 6 {
				binary.NativeEndian.PutUint64(msg[8*i:], n+1)
			}
			binary.NativeEndian.PutUint64(msg[48:], n+1)
			at, ok := h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr+8, 56, ci.RemoteWrite)
			if !ok {
				panic("refused")
			}
			if err := at.writeLast(msg); err != nil {
				panic(err)
			}
			h.release()
			<-turn
		}
	})
	for n := range uint64(500) {
		eventually(t, func() bool { return hostLoad(b[56:]) == n+1 })
		for i := range 6 {
			require.Equal(t, n+1, binary.NativeEndian.Uint64(b[8+8*i:]))
		}
		turn <- struct{}{}
	}
	wg.Wait()
	r.destroy(m)
	r.close()
}
