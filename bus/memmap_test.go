package bus_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"ciddk/bus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMapModel compares a Map with an array of one cell for each address.
func TestMapModel(t *testing.T) {
	t.Parallel()
	const space = 64
	const base = uint64(1<<64 - 200) // near the end of the address space
	rapid.Check(t, func(t *rapid.T) {
		type cell struct {
			b                *byte
			mapped, writable bool
			first, last      bool
		}
		var cells [space]cell
		m := bus.NewMap()
		var hint bus.Hint
		addr := rapid.IntRange(0, space-1)
		size := rapid.IntRange(0, 12)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				at, n := addr.Draw(t, "at"), size.Draw(t, "size")
				if at+n > space {
					return
				}
				var b []byte
				if rapid.IntRange(0, 4).Draw(t, "rom") > 0 {
					b = make([]byte, n)
				}
				writable := rapid.Bool().Draw(t, "writable")
				free := n > 0
				for _, c := range cells[at : at+n] {
					free = free && !c.mapped
				}
				err := m.Add(base+uint64(at), uint64(n), b, writable)
				if !free {
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				for i := range n {
					c := cell{mapped: true, writable: writable, first: i == 0, last: i == n-1}
					if b != nil {
						c.b = &b[i]
					}
					cells[at+i] = c
				}
			},
			"remove": func(t *rapid.T) {
				at, n := addr.Draw(t, "at"), rapid.IntRange(1, 30).Draw(t, "size")
				if at+n > space {
					return
				}
				whole, any := true, false
				for i, c := range cells[at : at+n] {
					any = any || c.mapped
					if c.mapped && i == 0 && !c.first || c.mapped && i == n-1 && !c.last {
						whole = false
					}
				}
				_, err := m.Remove(base+uint64(at), uint64(n))
				if !whole || !any {
					require.ErrorIs(t, err, bus.ErrNotMapped)
					return
				}
				require.NoError(t, err)
				clear(cells[at : at+n])
			},
			"write": func(t *rapid.T) {
				at, n := addr.Draw(t, "at"), size.Draw(t, "size")
				b := make([]byte, n)
				for i := range b {
					b[i] = rapid.Byte().Draw(t, "byte")
				}
				ok := true
				for i := range n {
					ok = ok && at+i < space && cells[at+i].b != nil && cells[at+i].writable
				}
				require.Equal(t, ok, m.Write(base+uint64(at), b))
				for i := range n {
					if ok {
						require.Equal(t, b[i], *cells[at+i].b)
					}
				}
			},
			"near": func(t *rapid.T) {
				at, n := addr.Draw(t, "at"), uint64(size.Draw(t, "size"))
				write := rapid.Bool().Draw(t, "write")
				loan := m.Borrow()
				defer m.Return(loan)
				got := m.SliceNear(&hint, base+uint64(at), n, write)
				require.Equal(t, m.Slice(base+uint64(at), n, write), got)
				if c := cells[at]; c.b == nil || write && !c.writable {
					require.Empty(t, got)
				} else if n > 0 {
					require.Same(t, c.b, &got[0])
				}
			},
			"read": func(t *rapid.T) {
				at, n := addr.Draw(t, "at"), size.Draw(t, "size")
				b := make([]byte, n)
				ok := true
				for i := range n {
					ok = ok && at+i < space && cells[at+i].b != nil
				}
				require.Equal(t, ok, m.Read(base+uint64(at), b))
				for i := range n {
					if ok {
						require.Equal(t, *cells[at+i].b, b[i])
					}
				}
			},
		})
	})
}

// TestMapRemoveWaits overwrites memory after it was removed, while accesses go on. An access that still used it would
// see the new contents, which the race detector reports, too.
func TestMapRemoveWaits(t *testing.T) {
	t.Parallel()
	m := bus.NewMap()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var b [64]byte
			for !stop.Load() {
				if m.Read(4096, b[:]) {
					for _, v := range b {
						if !assert.EqualValues(t, 7, v, "memory that was removed") {
							return
						}
					}
				}
			}
		})
	}
	for range 200 {
		b := make([]byte, 64)
		for i := range b {
			b[i] = 7
		}
		require.NoError(t, m.Add(4096, 64, b, true))
		list, err := m.Remove(4096, 64)
		require.NoError(t, err)
		require.Len(t, list, 1)
		for i := range list[0] {
			list[0][i] = 9
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestMapBounds(t *testing.T) {
	t.Parallel()
	m := bus.NewMap()
	for i := range uint64(bus.MaxRegions) {
		require.NoError(t, m.Add(i*2, 1, nil, false))
	}
	require.ErrorIs(t, m.Add(1<<40, 1, nil, false), bus.ErrTooMany)
	assert.Equal(t, bus.MaxRegions, m.Len())
	assert.Len(t, m.Clear(), bus.MaxRegions)
	assert.Zero(t, m.Len())
	require.Error(t, m.Add(1<<64-1, 2, nil, false), "beyond the address space")
	require.Error(t, m.Add(0, 2, make([]byte, 1), false))
	require.ErrorIs(t, func() error { _, err := m.Remove(0, 1); return err }(), bus.ErrNotMapped)
}

func BenchmarkMapRead(b *testing.B) {
	m := bus.NewMap()
	for i := range uint64(16) {
		require.NoError(b, m.Add(i<<20, 1<<20, make([]byte, 1<<20), true))
	}
	var p [64]byte
	b.ReportAllocs()
	for b.Loop() {
		m.Read(5<<20+100, p[:])
	}
}

func TestMapReadAllocatesNothing(t *testing.T) {
	m := bus.NewMap()
	require.NoError(t, m.Add(0, 4096, make([]byte, 4096), true))
	p := make([]byte, 64)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		m.Read(100, p)
		m.Write(200, p)
	}))
}
