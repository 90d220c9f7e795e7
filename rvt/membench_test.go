package rvt

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// The path of one SGE or one remote access: check, hold, view or copy, release.

func benchRig(b *testing.B) (*memRig, ci.Region) {
	r := newMemRig(b, nil)
	var g ci.Region
	for range 1000 { // a table with entries
		g = r.register(make([]byte, 4096), allRights).Region()
	}
	b.ReportAllocs()
	return r, g
}

func BenchmarkLocalSlices(b *testing.B) {
	r, g := benchRig(b)
	var h holds
	segs := make([][]byte, 0, 8)
	for b.Loop() {
		m, st := h.local(&r.h.keys, r.pd, g.SGE(64, 64), false)
		if st != ci.WCSuccess {
			b.Fatal(st)
		}
		if _, ok := m.slices(segs, 64); !ok {
			b.Fatal("no view")
		}
		h.release()
	}
}

// A batch of 32 requests on one region: one hold.
func BenchmarkLocalBatch(b *testing.B) {
	r, g := benchRig(b)
	var h holds
	segs := make([][]byte, 0, 8)
	for b.Loop() {
		for i := range uint64(32) {
			m, st := h.local(&r.h.keys, r.pd, g.SGE(64*i, 64), false)
			if st != ci.WCSuccess {
				b.Fatal(st)
			}
			if _, ok := m.slices(segs, 64); !ok {
				b.Fatal("no view")
			}
		}
		h.release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/SGE")
}

func BenchmarkRemoteWrite(b *testing.B) {
	for _, last := range []bool{false, true} {
		b.Run(fmt.Sprintf("last=%t", last), func(b *testing.B) {
			r, g := benchRig(b)
			var h holds
			p := make([]byte, 64)
			for b.Loop() {
				m, ok := h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr+64, 64, ci.RemoteWrite)
				if !ok {
					b.Fatal("refused")
				}
				var err error
				if last {
					err = m.writeLast(p)
				} else {
					err = m.write(p)
				}
				if err != nil {
					b.Fatal(err)
				}
				h.release()
			}
		})
	}
}

func BenchmarkRemoteWindow(b *testing.B) {
	r, _ := benchRig(b)
	mr := r.register(make([]byte, 4096), allRights)
	w := r.window(ci.MWType1)
	k, st := r.bind(r.q, w, mr, ci.MWBind{Addr: mr.Region().Addr, Length: 4096, Access: ci.RemoteWrite})
	require.Equal(b, ci.WCSuccess, st)
	var h holds
	for b.Loop() {
		if _, ok := h.remote(&r.h.keys, &r.q.endpoint, k, mr.Region().Addr+64, 64, ci.RemoteWrite); !ok {
			b.Fatal("refused")
		}
		h.release()
	}
}

func BenchmarkRemoteAtomic(b *testing.B) {
	r, g := benchRig(b)
	var h holds
	for b.Loop() {
		m, ok := h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr+64, 8, ci.RemoteAtomic)
		if !ok {
			b.Fatal("refused")
		}
		if _, err := m.atomic(wire.OpFetchAdd, 1, 0); err != nil {
			b.Fatal(err)
		}
		h.release()
	}
}

func BenchmarkRegister(b *testing.B) {
	r, _ := benchRig(b)
	m := ci.Bytes(make([]byte, 1<<20))
	for b.Loop() {
		o, err := r.pd.RegisterMR(ci.MRCreate{Memory: m, Access: allRights})
		if err != nil {
			b.Fatal(err)
		}
		if err := o.Destroy(); err != nil {
			b.Fatal(err)
		}
	}
}

// The data path does not allocate after the largest number of regions in a batch has been reached once.
func TestMemAllocs(t *testing.T) {
	r := newMemRig(t, nil)
	var gs []ci.Region
	for range 20 {
		gs = append(gs, r.register(make([]byte, 4096), allRights).Region())
	}
	far, err := r.pd.RegisterMR(ci.MRCreate{Memory: newPatches(0x1000, 100, 3996), Access: allRights})
	require.NoError(t, err)
	gs = append(gs, far.Region())
	h := new(holds)
	segs := make([][]byte, 0, 64)
	p := make([]byte, 256)
	run := func() {
		for _, g := range gs {
			m, _ := h.local(&r.h.keys, r.pd, g.SGE(0, 256), true)
			_, _ = m.slices(segs, 256)
			_ = m.read(p)
			m, _ = h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr+1, 256, ci.RemoteWrite)
			_ = m.write(p)
			_ = m.writeLast(p)
			_, _ = m.advance(7).atomic(wire.OpFetchAdd, 1, 0)
			_, _ = h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr, 1<<20, ci.RemoteWrite) // failed accesses, too
		}
		h.release()
	}
	run()
	require.Zero(t, testing.AllocsPerRun(100, run))
}
