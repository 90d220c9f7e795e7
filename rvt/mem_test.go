package rvt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// storages are the ways to access a region's bytes. direct reports that every byte can be accessed through a view.
func storages() []struct {
	name   string
	mem    ci.Memory
	direct bool
} {
	return []struct {
		name   string
		mem    ci.Memory
		direct bool
	}{
		{"heap", ci.Bytes(make([]byte, 5000)), true},
		{"extents", newPatches(0x10000, 1000, 1, 7, 8, 984, 3000), true},
		{"far", &farMemory{addr: 0x20000, b: make([]byte, 5000)}, false},
		{"mixed", newPatches(0x30000, 512, -512, 3976), false},
		{"one extent of bytes", newPatches(0x40000, 5000), true},
	}
}

func TestMemCopies(t *testing.T) {
	for _, s := range storages() {
		t.Run(s.name, func(t *testing.T) {
			r := newMemRig(t, nil)
			m, err := r.pd.RegisterMR(ci.MRCreate{Memory: s.mem, Access: ci.LocalWrite})
			require.NoError(t, err)
			g := m.Region()
			require.EqualValues(t, 5000, g.Length)
			var h holds
			for _, c := range [][2]int{{0, 5000}, {0, 1}, {999, 2}, {999, 20}, {1000, 1}, {4999, 1}, {500, 40},
				{123, 3456}, {1008, 8}} {
				off, n := c[0], c[1]
				for _, last := range []bool{false, true} {
					want := memPattern(make([]byte, n), byte(off+n))
					at := r.at(&h, r.pd, g, uint64(off), uint32(n))
					if last {
						want = memPattern(want, byte(off))
						require.NoError(t, at.writeLast(want))
					} else {
						require.NoError(t, at.write(want))
					}
					got := make([]byte, n)
					require.NoError(t, at.read(got))
					require.Equal(t, want, got)
					direct := make([]byte, n)
					_, err := s.mem.ReadAt(direct, int64(off))
					require.True(t, err == nil || off+n == 5000)
					require.Equal(t, want, direct)

					segs, ok := at.slices([][]byte{{1}}, uint32(n))
					if s.direct {
						require.True(t, ok)
					}
					if ok {
						require.Equal(t, want, bytes.Join(segs[1:], nil))
					} else {
						require.Len(t, segs, 1, "a refusal leaves the list as it was")
					}
				}
				// In two halves, by advance.
				at := r.at(&h, r.pd, g, uint64(off), uint32(n))
				want := memPattern(make([]byte, n), 99)
				require.NoError(t, at.write(want[:n/2]))
				require.NoError(t, at.advance(uint64(n/2)).write(want[n/2:]))
				got := make([]byte, n)
				require.NoError(t, at.read(got))
				require.Equal(t, want, got)
			}
			h.release()
			r.destroy(m)
			r.close()
		})
	}
}

func TestMemBeyond(t *testing.T) {
	for _, s := range storages() {
		t.Run(s.name, func(t *testing.T) {
			r := newMemRig(t, nil)
			m, err := r.pd.RegisterMR(ci.MRCreate{Memory: s.mem, Access: ci.LocalWrite, Offset: 100, Length: 4000})
			require.NoError(t, err)
			var h holds
			at := r.at(&h, r.pd, m.Region(), 3990, 10)
			b := make([]byte, 11)
			require.Error(t, at.read(b))
			require.Error(t, at.write(b))
			require.Error(t, at.writeLast(b))
			_, ok := at.slices(nil, 11)
			require.False(t, ok)
			_, err = at.advance(3).atomic(wire.OpFetchAdd, 1, 0)
			require.Error(t, err)
			require.Error(t, at.advance(1<<63).read(b))
			require.NoError(t, at.advance(10).write(nil))
			require.Error(t, mem{}.write(b), "an empty piece has no bytes")
			require.NoError(t, mem{}.writeLast(nil))
			require.NoError(t, mem{}.read(nil))
			segs, ok := mem{}.slices(nil, 0)
			require.True(t, ok)
			require.Empty(t, segs)
			h.release()
			r.destroy(m)
			r.close()
		})
	}
}

// The storage of a far memory disappears while it is registered: accesses fail with an error.
func TestMemFault(t *testing.T) {
	r := newMemRig(t, nil)
	far := &farMemory{addr: 0x1000, b: make([]byte, 64)}
	m, err := r.pd.RegisterMR(ci.MRCreate{Memory: far, Access: ci.LocalWrite})
	require.NoError(t, err)
	far.exited = true
	var h holds
	at := r.at(&h, r.pd, m.Region(), 0, 64)
	require.ErrorIs(t, at.read(make([]byte, 64)), errExited)
	require.ErrorIs(t, at.write(make([]byte, 64)), errExited)
	require.ErrorIs(t, at.writeLast(make([]byte, 64)), errExited)
	_, err = at.atomic(wire.OpFetchAdd, 1, 0)
	require.ErrorIs(t, err, errNotDirect)
	h.release()
	r.destroy(m)
	r.close()
}

// The order of stores of writeLast is visible in the calls of a far memory.
func TestWriteLastOrder(t *testing.T) {
	for _, c := range []struct {
		off, n int
		last   [2]int // the store that must come last
	}{
		{0, 64, [2]int{56, 8}},
		{0, 61, [2]int{48, 8}},
		{3, 61, [2]int{56, 8}},
		{3, 7, [2]int{3, 7}},   // no complete word
		{3, 12, [2]int{3, 12}}, // 3 to 15: the same
		{8, 8, [2]int{8, 8}},
		{1, 15, [2]int{8, 8}},
	} {
		t.Run(fmt.Sprint(c.off, c.n), func(t *testing.T) {
			r := newMemRig(t, nil)
			far := &farMemory{addr: 0x1000, b: make([]byte, 64)}
			m, err := r.pd.RegisterMR(ci.MRCreate{Memory: far, Access: ci.LocalWrite})
			require.NoError(t, err)
			var h holds
			require.NoError(t, r.at(&h, r.pd, m.Region(), uint64(c.off), uint32(c.n)).writeLast(make([]byte, c.n)))
			require.Equal(t, c.last, far.writes[len(far.writes)-1])
			sum := 0
			for _, w := range far.writes {
				sum += w[1]
			}
			require.Equal(t, c.n, sum, "every byte once")
			h.release()
			r.destroy(m)
			r.close()
		})
	}
}

// lastWord returns the word that is stored last, for views by their address in storage.
func TestLastWord(t *testing.T) {
	b := make([]byte, 64) // the runtime aligns this to 8 at least
	for lo := range 64 {
		for hi := lo; hi <= 64; hi++ {
			s := segment{n: uint64(hi - lo), b: b[lo:hi]}
			want := hi&^7 - 8
			at, ok := s.lastWord()
			require.Equal(t, hi > lo && want >= lo, ok, "%d:%d", lo, hi)
			if ok {
				require.EqualValues(t, want-lo, at, "%d:%d", lo, hi)
			}
		}
	}
}

func TestMemAtomic(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 64)
	m := r.register(b, allRights)
	g := m.Region()
	var h holds
	put := func(v uint64) { binary.NativeEndian.PutUint64(b[8:], v) }
	get := func() uint64 { return binary.NativeEndian.Uint64(b[8:]) }
	at := r.at(&h, r.pd, g, 8, 8)

	put(40)
	old, err := at.atomic(wire.OpFetchAdd, 2, 77)
	require.NoError(t, err)
	require.EqualValues(t, 40, old)
	require.EqualValues(t, 42, get())

	old, err = at.atomic(wire.OpFetchAdd, ^uint64(0), 0) // wraps
	require.NoError(t, err)
	require.EqualValues(t, 42, old)
	require.EqualValues(t, 41, get())

	old, err = at.atomic(wire.OpCompareSwap, 7, 42)
	require.NoError(t, err)
	require.EqualValues(t, 41, old, "no match: the old value, and nothing changes")
	require.EqualValues(t, 41, get())

	old, err = at.atomic(wire.OpCompareSwap, 7, 41)
	require.NoError(t, err)
	require.EqualValues(t, 41, old)
	require.EqualValues(t, 7, get())

	for off := uint64(9); off < 16; off++ {
		_, err = r.at(&h, r.pd, g, off, 8).atomic(wire.OpFetchAdd, 1, 0)
		require.ErrorIs(t, err, errMisaligned)
	}
	h.release()
	r.destroy(m)

	// Extents with and without a boundary inside a word.
	p := newPatches(0, 12, 52)
	mr, err := r.pd.RegisterMR(ci.MRCreate{Memory: p, Access: allRights})
	require.NoError(t, err)
	_, err = r.at(&h, r.pd, mr.Region(), 8, 8).atomic(wire.OpFetchAdd, 1, 0)
	require.ErrorIs(t, err, errMisaligned)
	_, err = r.at(&h, r.pd, mr.Region(), 12, 8).atomic(wire.OpFetchAdd, 1, 0)
	require.NoError(t, err, "alignment is that of storage")
	require.EqualValues(t, 1, binary.NativeEndian.Uint64(p.pieces[1].b))
	h.release()
	r.destroy(mr)
	r.close()
}

// More regions than the array of a hold: all are held and released, each once.
func TestHoldsMany(t *testing.T) {
	r := newMemRig(t, nil)
	var h holds
	var mrs []*MR
	for range 20 {
		mrs = append(mrs, r.register(make([]byte, 16), ci.LocalWrite))
	}
	for range 3 {
		for round := range 2 {
			for _, m := range mrs {
				r.at(&h, r.pd, m.Region(), uint64(round), 8)
			}
		}
		for _, m := range mrs {
			require.EqualValues(t, 1, m.slot.now.Load().n.Load())
		}
		h.release()
		for _, m := range mrs {
			require.EqualValues(t, 0, m.slot.now.Load().n.Load())
		}
	}
	for _, m := range mrs {
		r.destroy(m)
	}
	r.close()
}

// Destroy and similar verbs wait for accesses in progress.
func TestDestroyWaits(t *testing.T) {
	r := newMemRig(t, nil)
	b := make([]byte, 64)
	m := r.register(b, allRights)
	var h holds
	at := r.at(&h, r.pd, m.Region(), 0, 64)
	done := make(chan error)
	go func() { done <- m.Destroy() }()
	eventually(t, func() bool { return r.h.keys.find(m.Region().LKey) == nil }) // Destroy has withdrawn the key
	require.NoError(t, at.write([]byte{1}), "an access that has begun may end")
	require.False(t, r.localOK(r.pd, m.Region().LKey, m.Region().Addr, 1, false), "no new one begins")
	select {
	case err := <-done:
		require.NoError(t, err)
		require.FailNow(t, "did not wait")
	default:
	}
	h.release()
	require.NoError(t, <-done)
	r.close()
}

func TestLocalChecks(t *testing.T) {
	r := newMemRig(t, nil)
	m := r.register(make([]byte, 100), ci.LocalWrite)
	ro := r.register(make([]byte, 100), 0)
	g, k := m.Region(), ro.Region()
	for _, c := range []struct {
		name  string
		pd    *PD
		sge   ci.SGE
		write bool
		want  ci.WCStatus
	}{
		{"all", r.pd, g.SGE(0, 100), true, ci.WCSuccess},
		{"last byte", r.pd, g.SGE(99, 1), true, ci.WCSuccess},
		{"empty, good key", r.pd, g.SGE(0, 0), true, ci.WCSuccess},
		{"empty, no key", r.pd, ci.SGE{}, true, ci.WCSuccess},
		{"one too many", r.pd, g.SGE(0, 101), false, ci.WCLocalProtErr},
		{"behind", r.pd, g.SGE(100, 1), false, ci.WCLocalProtErr},
		{"before", r.pd, ci.SGE{Addr: g.Addr - 1, Length: 1, LKey: g.LKey}, false, ci.WCLocalProtErr},
		{"wraps", r.pd, ci.SGE{Addr: ^uint64(0), Length: 2, LKey: g.LKey}, false, ci.WCLocalProtErr},
		{"address 0", r.pd, ci.SGE{Addr: 0, Length: 1, LKey: g.LKey}, false, ci.WCLocalProtErr},
		{"longest", r.pd, g.SGE(1, ^uint32(0)), false, ci.WCLocalProtErr},
		{"key 0", r.pd, ci.SGE{Addr: g.Addr, Length: 1}, false, ci.WCLocalProtErr},
		{"other variant", r.pd, ci.SGE{Addr: g.Addr, Length: 1, LKey: g.LKey ^ 1}, false, ci.WCLocalProtErr},
		{"other index", r.pd, ci.SGE{Addr: g.Addr, Length: 1, LKey: g.LKey ^ 0x100}, false, ci.WCLocalProtErr},
		{"other PD", r.pd2, g.SGE(0, 1), false, ci.WCLocalProtErr},
		{"read-only, read", r.pd, k.SGE(0, 100), false, ci.WCSuccess},
		{"read-only, write", r.pd, k.SGE(0, 100), true, ci.WCLocalProtErr},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h holds
			m, st := h.local(&r.h.keys, c.pd, c.sge, c.write)
			require.Equal(t, c.want, st)
			require.Equal(t, st == ci.WCSuccess && c.sge.Length > 0, m.mr != nil)
			h.release()
		})
	}
	r.destroy(m, ro)
	r.close()
}

func TestRemoteChecks(t *testing.T) {
	r := newMemRig(t, nil)
	rights := []ci.Access{ci.RemoteRead, ci.RemoteWrite, ci.RemoteAtomic}
	for bits := range ci.Access(8) {
		a := ci.LocalWrite | bits
		m := r.register(make([]byte, 100), a)
		g := m.Region()
		key := g.LKey // R_Key is 0 without remote rights; the index must not be usable either
		require.Equal(t, bits != 0, g.RKey == g.LKey)
		for _, need := range rights {
			require.Equal(t, a&need != 0, r.remoteOK(r.q, key, g.Addr, 100, need), "%b %b", a, need)
			require.False(t, r.remoteOK(r.other, key, g.Addr, 100, need), "another PD")
			require.False(t, r.remoteOK(r.q, key, g.Addr, 101, need))
			require.False(t, r.remoteOK(r.q, key, g.Addr+100, 1, need))
			require.False(t, r.remoteOK(r.q, key, g.Addr-1, 2, need))
			require.False(t, r.remoteOK(r.q, key, g.Addr+1, ^uint64(0), need))
			require.False(t, r.remoteOK(r.q, key, ^uint64(0), 2, need))
			require.False(t, r.remoteOK(r.q, key^0x80, g.Addr, 1, need))
		}
		r.destroy(m)
		for _, need := range rights {
			require.False(t, r.remoteOK(r.q, key, g.Addr, 1, need), "destroyed")
		}
	}
	r.close()
}
