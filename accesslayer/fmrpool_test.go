package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/accesslayer"
	"ciddk/ci"
)

func poolConfig() accesslayer.FMRPoolConfig {
	return accesslayer.FMRPoolConfig{FMRCreate: ci.FMRCreate{MaxPages: 4, MaxMaps: 2, PageShift: 12}, Size: 4,
		DirtyWatermark: 2}
}

func TestFMRPoolRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, change := range map[string]func(*accesslayer.FMRPoolConfig){
		"no size":            func(c *accesslayer.FMRPoolConfig) { c.Size = 0 },
		"no pages":           func(c *accesslayer.FMRPoolConfig) { c.MaxPages = 0 },
		"watermark too high": func(c *accesslayer.FMRPoolConfig) { c.DirtyWatermark = 5 },
		"watermark negative": func(c *accesslayer.FMRPoolConfig) { c.DirtyWatermark = -1 },
	} {
		cfg := poolConfig()
		change(&cfg)
		_, err := r.pd.NewFMRPool(cfg)
		assert.ErrorIs(t, err, ci.InvalidParameter, name)
	}
	before := r.h.liveObjects()
	r.h.plan("create FMR", nil, nil, &ci.Error{Status: ci.InsufficientResources})
	_, err := r.pd.NewFMRPool(poolConfig())
	assert.ErrorIs(t, err, ci.InsufficientResources)
	assert.Equal(t, before, r.h.liveObjects(), "FMRs made before the failure are destroyed")

	pool := must(r.pd.NewFMRPool(poolConfig()))
	for _, n := range []int{0, 5} {
		_, err := pool.Map(make([]uint64, n), 0)
		assert.ErrorIs(t, err, ci.InvalidParameter)
	}
	m := must(pool.Map([]uint64{4096}, 0))
	require.NoError(t, m.Unmap())
	assert.ErrorIs(t, m.Unmap(), ci.InvalidHandle)
	r.h.plan("FMR.Map", &ci.Error{Status: ci.InvalidParameter})
	_, err = pool.Map([]uint64{1}, 0)
	assert.ErrorIs(t, err, ci.InvalidParameter)
	require.NoError(t, pool.Destroy())
	_, err = pool.Map([]uint64{4096}, 0)
	assert.ErrorIs(t, err, accesslayer.ErrClosed)
	assert.ErrorIs(t, m.Unmap(), accesslayer.ErrClosed)
	assert.ErrorIs(t, pool.Flush(), accesslayer.ErrClosed)
	assert.Equal(t, before, r.h.liveObjects())
}

// At the watermark the dirty FMRs are unmapped together, on another goroutine, and can be used again.
func TestFMRPoolWatermark(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := poolConfig()
	cfg.MaxMaps = 1
	flushed := make(chan error, 1)
	cfg.OnFlush = func(err error) { flushed <- err }
	pool := must(r.pd.NewFMRPool(cfg))
	var ms []*accesslayer.FMRMapping
	for i := range uint64(4) {
		ms = append(ms, must(pool.Map([]uint64{i << 12}, i<<12)))
	}
	_, err := pool.Map([]uint64{9 << 12}, 0)
	require.ErrorIs(t, err, ci.InsufficientResources, "all are in use")
	require.NoError(t, ms[0].Unmap())
	_, err = pool.Map([]uint64{9 << 12}, 0)
	require.ErrorIs(t, err, ci.InsufficientResources, "one is dirty: being out of them begins a flush before the "+
		"watermark")
	require.NoError(t, <-flushed)
	require.NoError(t, ms[1].Unmap())
	require.NoError(t, ms[2].Unmap())
	require.NoError(t, <-flushed)
	assert.Contains(t, r.h.traced(), "unmap 2")
	for range 3 {
		must(pool.Map([]uint64{9 << 12}, 0))
	}
}

// With the cache, the same pages at the same address have the same keys until a flush. Without the cache, or after a
// flush, they have new keys.
func TestFMRPoolCache(t *testing.T) {
	t.Parallel()
	for _, cached := range []bool{false, true} {
		r := newRig(t)
		cfg := poolConfig()
		cfg.Cache = cached
		pool := must(r.pd.NewFMRPool(cfg))
		pages := []uint64{1 << 12, 2 << 12}
		a := must(pool.Map(pages, 0))
		pages[1] = 7 // the pool keeps a copy of the caller's slice
		b := must(pool.Map([]uint64{1 << 12, 2 << 12}, 0))
		assert.Equal(t, cached, a.LKey == b.LKey)
		other := must(pool.Map([]uint64{1 << 12, 2 << 12}, 1<<20))
		assert.NotEqual(t, a.LKey, other.LKey, "another address")
		require.NoError(t, a.Unmap())
		require.NoError(t, b.Unmap())
		c := must(pool.Map([]uint64{1 << 12, 2 << 12}, 0))
		if cached {
			assert.Equal(t, a.LKey, c.LKey, "returned, but not flushed")
		}
		require.NoError(t, c.Unmap())
		require.NoError(t, pool.Flush())
		d := must(pool.Map([]uint64{1 << 12, 2 << 12}, 0))
		assert.NotEqual(t, a.LKey, d.LKey, "flushed")
	}
}

func TestFMRPoolFlushFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	pool := must(r.pd.NewFMRPool(poolConfig()))
	require.NoError(t, must(pool.Map([]uint64{1}, 0)).Unmap())
	r.h.plan("PD.UnmapFMRs", &ci.Error{Status: ci.Timeout}, nil, &ci.Error{Status: ci.Timeout})
	require.ErrorIs(t, pool.Flush(), ci.Timeout)
	require.NoError(t, pool.Flush(), "what was not unmapped waits for the next flush")
	assert.Contains(t, r.h.traced(), "unmap 1")
	must(pool.Map([]uint64{1}, 0))
	require.NoError(t, pool.Destroy(), "Destroy repeats it")
}

// Under any sequence of calls, an FMR maps one set of pages at a time and is not mapped more often than allowed, which
// the fake checks. After Flush, no key of a returned mapping is valid.
func TestFMRPoolModel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rapid.Check(t, func(rt *rapid.T) {
		cfg := poolConfig()
		cfg.Cache = rapid.Bool().Draw(rt, "cache")
		cfg.MaxMaps = rapid.IntRange(1, 3).Draw(rt, "max maps")
		pool := must(r.pd.NewFMRPool(cfg))
		type held struct {
			m    *accesslayer.FMRMapping
			page uint64
		}
		var out []held
		old := map[ci.Key]bool{} // keys returned before the last flush
		back := map[ci.Key]bool{}
		rt.Repeat(map[string]func(*rapid.T){
			"map": func(rt *rapid.T) {
				page := rapid.Uint64Range(1, 6).Draw(rt, "page") << 12
				m, err := pool.Map([]uint64{page}, page)
				if err != nil {
					require.ErrorIs(rt, err, ci.InsufficientResources)
					return
				}
				require.False(rt, old[m.LKey], "a key from before the flush")
				for _, h := range out {
					if h.m.LKey == m.LKey {
						require.True(rt, cfg.Cache)
						require.Equal(rt, h.page, page)
					}
				}
				delete(back, m.LKey)
				out = append(out, held{m, page})
			},
			"unmap": func(rt *rapid.T) {
				if len(out) == 0 {
					rt.Skip("none")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(rt, "which")
				require.NoError(rt, out[i].m.Unmap())
				key := out[i].m.LKey
				out = append(out[:i], out[i+1:]...)
				for _, h := range out {
					if h.m.LKey == key {
						return
					}
				}
				back[key] = true
			},
			"flush": func(rt *rapid.T) {
				require.NoError(rt, pool.Flush())
				for k := range back {
					old[k] = true
				}
				clear(back)
			},
		})
		require.NoError(rt, pool.Destroy())
	})
}
