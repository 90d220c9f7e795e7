package rvt

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// FuzzSpan compares the bounds arithmetic of a grant with integers that do not wrap.
func FuzzSpan(f *testing.F) {
	const max = math.MaxUint64
	for _, s := range [][5]uint64{{0, 0, 0, 0, 0}, {0x1000, 0x1000, 0, 0x1fff, 1}, {0x1000, 0x1000, 7, 0x1fff, 2},
		{max - 8, 8, 0, max - 1, 1},
		{max - 8, 8, 0, max, 1}, {0x1000, 0x1000, 0, 0xfff, 1}, {0x1000, 0x1000, 0, max, 0x1002}, {0x1000, 0x1000, 0,
			0x1800, max - 0x17ff},
		{0, max, 0, max, 1}, {0, max, 0, 0, max}} {
		f.Add(s[0], s[1], s[2], s[3], s[4])
	}
	f.Fuzz(func(t *testing.T, base, length, off, addr, n uint64) {
		if base > max-length || off > max-length {
			t.Skip("no region has these")
		}
		g := &grant{base: base, length: length, off: off}
		got, ok := g.span(addr, n)
		b := func(x uint64) *big.Int { return new(big.Int).SetUint64(x) }
		end := new(big.Int).Add(b(addr), b(n))
		want := b(addr).Cmp(b(base)) >= 0 && end.Cmp(new(big.Int).Add(b(base), b(length))) <= 0
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, addr-base+off, got)
			require.LessOrEqual(t, got-off+n, length)
		} else {
			require.Zero(t, got)
		}
	})
}

// FuzzPlaces registers random ranges and accesses both ends of the result: nothing panics, and no byte outside of the
// memory is accessed.
func FuzzPlaces(f *testing.F) {
	const max = math.MaxUint64
	f.Add(uint64(0), uint64(0), uint64(0), uint64(0), uint8(0))
	f.Add(uint64(5), uint64(100), uint64(0), uint64(0), uint8(1))
	f.Add(uint64(max), uint64(2), uint64(max), uint64(4096), uint8(2))
	f.Add(uint64(4096), uint64(12288-4096), uint64(0x1000), uint64(4096), uint8(3))
	f.Add(uint64(1), uint64(max), uint64(max-4095), uint64(1<<63), uint8(3))
	f.Fuzz(func(t *testing.T, offset, length, iova, size uint64, kind uint8) {
		r := newMemRig(t, nil)
		storage := newPatches(0x10000, 5000, 7288)
		d := r.mapDMA(storage)
		ranges := append([]ci.DMARange(nil), d.Ranges()...)
		var m ci.MR
		var err error
		switch kind % 4 {
		case 0:
			m, err = r.pd.RegisterMR(ci.MRCreate{Memory: storage, Offset: offset, Length: length, IOVA: iova,
				Access: allRights})
		case 1:
			ranges[0].Size = size
			fallthrough
		case 2:
			m, err = r.pd.RegisterPMR(ci.PMRCreate{Ranges: ranges, PageSize: 4096, Offset: offset, Length: length,
				IOVA: iova, Access: allRights})
		case 3:
			m, err = r.pd.AllocFastRegMR(4)
			require.NoError(t, err)
			fr := ci.FastReg{Pages: []uint64{ranges[0].Addr, ranges[1].Addr, size}, PageShift: 12,
				Offset: uint32(offset), Length: length, IOVA: iova,
				Key: m.Region().LKey, Access: allRights}
			if r.h.fastReg(&r.q.endpoint, &WorkExt{MR: m.(*MR), FastReg: fr}) != ci.WCSuccess {
				require.Zero(t, d.refs.Count())
				r.destroy(m, d)
				r.close()
				return
			}
		}
		if err != nil {
			requireStatus(t, ci.InvalidParameter, err)
			require.Nil(t, m)
			require.Zero(t, d.refs.Count())
			r.destroy(d)
			r.close()
			return
		}
		g := m.Region()
		require.NotZero(t, g.Length)
		require.LessOrEqual(t, g.Length, storage.Len())
		require.LessOrEqual(t, g.Addr, max-g.Length)
		var h holds
		for _, off := range []uint64{0, g.Length - 1} {
			at, ok := h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr+off, 1, ci.RemoteWrite)
			require.True(t, ok)
			require.NoError(t, at.writeLast([]byte{byte(off)}))
		}
		at, ok := h.remote(&r.h.keys, &r.q.endpoint, g.RKey, g.Addr, g.Length, ci.RemoteRead)
		require.True(t, ok)
		segs, ok := at.slices(nil, uint32(g.Length))
		require.True(t, ok)
		var sum uint64
		for _, s := range segs {
			sum += uint64(len(s))
		}
		require.Equal(t, g.Length, sum)
		require.False(t, r.remoteOK(r.q, g.RKey, g.Addr, g.Length+1, ci.RemoteRead))
		h.release()
		r.destroy(m, d)
		r.close()
	})
}

// FuzzStorage compares accesses to storage in odd extents with a plain slice.
func FuzzStorage(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint16(0), uint8(0))
	f.Add([]byte("seventeen bytes long"), uint16(7), uint8(3))
	f.Add(make([]byte, 100), uint16(1), uint8(5))
	f.Fuzz(func(t *testing.T, p []byte, off uint16, how uint8) {
		m := newPatches(0x1003, 1, 7, 8, -9, 33, 100, -20, 64)
		y := newStorage(extents(m, 0, m.Len()))
		require.Equal(t, m.Len(), y.len())
		want := memPattern(make([]byte, m.Len()), 77)
		at := mem{mr: y}
		require.NoError(t, at.write(want))
		at = at.advance(uint64(off))
		var err error
		if how&1 == 0 {
			err = at.write(p)
		} else {
			err = at.writeLast(p)
		}
		if uint64(off)+uint64(len(p)) > m.Len() && len(p) > 0 {
			require.ErrorIs(t, err, errOutside)
			require.Equal(t, want, m.all(), "an access that is refused writes nothing")
			return
		}
		require.NoError(t, err)
		if len(p) > 0 {
			copy(want[off:], p)
		}
		require.Equal(t, want, m.all())
		got := make([]byte, len(p))
		require.NoError(t, at.read(got))
		require.Equal(t, len(p), copy(got, got))
		if len(p) > 0 {
			require.Equal(t, p, got)
		}
	})
}
