package model

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// memoryHost is a host that has memory only.
type memoryHost struct{ m *bus.Map }

func (h memoryHost) Memory() *bus.Map { return h.m }
func (memoryHost) Interrupt(int)      {}

// translated returns a model whose ICM is one page of MTTs, and the region of pages pages at the MTTs' beginning.
func translated(t *testing.T, pages uint64) (m *Model, mtts, data []byte, r *translation) {
	t.Helper()
	const tableAt, dataAt = 0x10000, 0x100000
	m = &Model{}
	h := memoryHost{bus.NewMap()}
	mtts, data = make([]byte, prm.ICMPageSize), make([]byte, 64*prm.ICMPageSize)
	require.NoError(t, h.m.Add(tableAt, uint64(len(mtts)), mtts, true))
	require.NoError(t, h.m.Add(dataAt, uint64(len(data)), data, true))
	m.host.Store(&attachment{h})
	require.Equal(t, prm.OK, m.icm.add([]pageRun{{0, tableAt, 1}}))
	for i := range 64 {
		bigEndian.PutUint64(mtts[i*mttEntry:], uint64(dataAt+i*prm.ICMPageSize)|1)
	}
	buf, ok := m.newBuffer(0, 12, pages*prm.ICMPageSize)
	require.True(t, ok)
	return m, mtts, data, &translation{buffer: buf}
}

// TestTranslationRuns compares remembered translations with the table, contiguous and scattered.
func TestTranslationRuns(t *testing.T) {
	t.Parallel()
	const page = prm.ICMPageSize
	m, mtts, _, r := translated(t, 16)
	bigEndian.PutUint64(mtts[5*mttEntry:], 0x103000|1) // page 5 is in another place
	for _, tt := range []struct{ off, addr, n uint64 }{
		{0, 0x100000, 5 * page}, {1, 0x100001, 5*page - 1}, {4*page + 7, 0x104007, page - 7},
		{5 * page, 0x103000, page}, {5*page + 4095, 0x103fff, 1}, {6 * page, 0x106000, 10 * page},
		{15*page + 1, 0x10f001, page - 1},
	} {
		addr, n, ok := r.page(tt.off, 1<<20)
		require.True(t, ok)
		require.Equal(t, [2]uint64{tt.addr, tt.n}, [2]uint64{addr, n}, "offset %#x", tt.off)
	}
	require.EqualValues(t, 4, m.translations.runs.Load(), "three runs and the end")
	r.close()
	require.Zero(t, m.translations.runs.Load())
	_, _, ok := r.page(0, 1)
	require.True(t, ok, "raw frames may use a region that is about to go")
	require.Zero(t, m.translations.runs.Load(), "but it remembers nothing")
}

// TestTranslationChanges edits the table. The region sees it after a command that says so, and not before.
func TestTranslationChanges(t *testing.T) {
	t.Parallel()
	m, mtts, _, r := translated(t, 4)
	at := func() uint64 {
		addr, _, ok := r.page(0, 1)
		require.True(t, ok)
		return addr
	}
	require.EqualValues(t, 0x100000, at())
	bigEndian.PutUint64(mtts, 0x120000|1)
	require.EqualValues(t, 0x100000, at(), "the card caches MTTs")
	c := &command{Model: m}
	require.Equal(t, prm.OK, c.syncTPT())
	require.EqualValues(t, 0x120000, at())

	bigEndian.PutUint64(mtts[mttEntry:], 0) // the second page is not present
	require.Equal(t, prm.OK, c.syncTPT())
	require.EqualValues(t, 0x120000, at())
	_, _, ok := r.page(prm.ICMPageSize, 1)
	require.False(t, ok)
	require.EqualValues(t, 0, m.translations.runs.Load(), "what is not present is not remembered")

	require.Equal(t, prm.OK, m.icm.remove(0, 1))
	m.translations.invalidate()
	_, _, ok = r.page(0, 1)
	require.False(t, ok)
}

// TestRegionViews borrows memory of the host from a region, which the host cannot unmap until it is returned.
func TestRegionViews(t *testing.T) {
	t.Parallel()
	m, _, data, tr := translated(t, 4)
	r := &region{m: m, size: 4 * prm.ICMPageSize, pages: tr}
	l := r.Lender()
	loan := l.Borrow()
	views, ok := r.Views(l, make([][]byte, 0, 2), 10, 100, true)
	require.True(t, ok)
	require.Len(t, views, 1)
	views[0][0] = 1
	require.EqualValues(t, 1, data[10])
	_, ok = r.Views(bus.NewMap(), make([][]byte, 0, 2), 10, 100, true)
	require.False(t, ok, "of another host")
	_, ok = r.Views(l, nil, 10, 100, true)
	require.False(t, ok, "no room")

	done := make(chan struct{})
	go func() {
		defer close(done)
		l.(*bus.Map).Clear()
	}()
	for ok = true; ok; { // until the region is gone from the map, which Clear does before it waits
		_, ok = r.Views(l, make([][]byte, 0, 2), 10, 100, true)
	}
	select {
	case <-done:
		t.Fatal("memory was unmapped during a loan")
	default:
	}
	l.Return(loan)
	<-done
	m.host.Store(nil)
	require.Nil(t, r.Lender())
}
