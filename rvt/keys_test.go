package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

func TestPermute(t *testing.T) {
	differ := 0
	for seed := range uint64(64) {
		var seen [256]bool
		for v := range 256 {
			p := permute(seed, uint8(v))
			require.False(t, seen[p], "seed %d: %d twice", seed, p)
			seen[p] = true
			if int(p) != v {
				differ++
			}
		}
	}
	require.Greater(t, differ, 64*200, "hardly a permutation to speak of")
}

func TestKeysUnpredictable(t *testing.T) {
	r := newMemRig(t, nil)
	seen := make(map[ci.Key]bool)
	var mrs []*MR
	var bits [32]int
	const n = 2000
	for range n {
		m := r.register(make([]byte, 1), ci.RemoteRead)
		g := m.Region()
		require.NotZero(t, g.LKey)
		require.NotZero(t, g.LKey>>8)
		require.Equal(t, g.LKey, g.RKey)
		require.False(t, seen[g.LKey>>8], "index used twice")
		seen[g.LKey>>8] = true
		for i := range bits {
			bits[i] += int(g.LKey >> i & 1)
		}
		mrs = append(mrs, m)
	}
	for i, c := range bits {
		require.InDelta(t, n/2, c, n/10, "bit %d", i)
	}
	for _, m := range mrs {
		r.destroy(m)
	}
	r.close()
}

func TestKeysNamed(t *testing.T) {
	var next []uint32
	r := newMemRig(t, func(c *Config) {
		c.Ops.Key = func() uint32 {
			k := next[0]
			if len(next) > 1 {
				next = next[1:]
			}
			return k
		}
	})
	next = []uint32{0x123456}
	m := r.register(make([]byte, 1), ci.RemoteRead)
	require.EqualValues(t, 0x12345600, m.Region().LKey)

	next = []uint32{0, 0x123456, 0x00abcd} // unusable, used, free
	m2 := r.register(make([]byte, 1), ci.RemoteRead)
	require.EqualValues(t, 0x00abcd00, m2.Region().LKey)

	next = []uint32{0x123456}
	for _, make := range []func() error{
		func() error {
			_, err := r.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(make([]byte, 1))})
			return err
		},
		func() error { _, err := r.pd.CreateMW(ci.MWCreate{Type: ci.MWType1}); return err },
		func() error { _, err := r.pd.AllocFastRegMR(1); return err },
		func() error {
			_, err := r.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
			return err
		},
	} {
		requireStatus(t, ci.InsufficientResources, make())
	}
	r.destroy(m, m2)
	r.close()
}

// An index is free again after Destroy: SAS-2.3-24 requires ten times the table's size.
func TestKeysReused(t *testing.T) {
	r := newMemRig(t, func(c *Config) { c.Attr.MaxMRs = 64 })
	b := make([]byte, 8)
	for range 640 {
		m := r.register(b, ci.LocalWrite)
		r.destroy(m)
	}
	r.close()
}

func TestSettled(t *testing.T) {
	r := newMemRig(t, nil)
	d := r.mapDMA(ci.Bytes(make([]byte, 4096)))
	o, err := r.pd.AllocFastRegMR(1)
	require.NoError(t, err)
	m := o.(*MR)
	key := m.Region().LKey
	require.True(t, r.h.keys.settled(key, nil), "nothing has been withdrawn")
	reg := func() ci.WCStatus {
		return r.h.fastReg(&r.q.endpoint, &WorkExt{MR: m, FastReg: ci.FastReg{Pages: []uint64{d.Ranges()[0].Addr},
			PageShift: 12, Length: 4096,
			Key: key, Access: allRights}})
	}
	require.Equal(t, ci.WCSuccess, reg())
	var a, b holds
	r.at(&a, r.pd, m.Region(), 0, 1)
	r.at(&b, r.pd, m.Region(), 0, 1)
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, key))

	woken := 0
	require.False(t, r.h.keys.settled(key, func() { woken++ }), "two still use it")
	requireStatus(t, ci.ResourceBusy, func() error { // unchanged by a new mapping
		require.Equal(t, ci.WCSuccess, reg())
		return d.Destroy()
	}())
	a.release()
	require.Zero(t, woken)
	require.False(t, r.h.keys.settled(key, func() { woken++ }))
	b.release()
	require.Equal(t, 2, woken)
	require.True(t, r.h.keys.settled(key, func() { woken++ }))
	require.True(t, r.h.keys.settled(key^0x100, nil), "a key that names nothing")

	// The same for DMA.Destroy: it waits for accesses for which an invalidation did not wait.
	r.at(&a, r.pd, m.Region(), 0, 1)
	require.Equal(t, ci.WCSuccess, r.h.localInv(&r.q.endpoint, key))
	done := make(chan error, 1)
	go func() { done <- d.Destroy() }()
	eventually(t, func() bool { return d.use.n.Load() < 0 }) // Destroy only waits
	select {
	case err := <-done:
		require.NoError(t, err)
		require.FailNow(t, "DMA.Destroy did not wait")
	default:
	}
	a.release()
	require.NoError(t, <-done)
	require.Equal(t, 2, woken)
	r.destroy(m)
	r.close()
}
