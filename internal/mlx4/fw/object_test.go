package fw_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/fw"
	"ciddk/internal/mlx4/prm"
)

// small is a profile whose tables a test can exhaust.
var small = fw.Profile{LogQPs: 12, LogSRQs: 8, LogCQs: 9, LogMPTs: 12, LogMTTs: 12, LogMCGs: 4}

// TestExhaust allocates all numbers of each kind, releases one, and allocates it again.
func TestExhaust(t *testing.T) {
	d := open(t, newFunction(t, newModel(t, model.Config{})), fw.Config{Profile: small})
	ctx := t.Context()
	c := d.Caps()
	for name, x := range map[string]struct {
		alloc func() (uint32, error)
		free  func(uint32)
		n     uint32
	}{
		"QPs": {func() (uint32, error) { return d.AllocQPs(ctx, 1, 1) }, func(n uint32) { d.FreeQPs(n, 1) },
			c.NumQPs - 72},
		"CQs":  {func() (uint32, error) { return d.AllocCQ(ctx) }, d.FreeCQ, c.NumCQs - 128},
		"SRQs": {func() (uint32, error) { return d.AllocSRQ(ctx) }, d.FreeSRQ, c.NumSRQs - 64},
		"MPTs": {func() (uint32, error) { return d.AllocMPT(ctx) }, d.FreeMPT, c.NumMPTs - 16},
		"PDs":  {d.AllocPD, d.FreePD, c.NumPDs - 2},
		"MCGs": {d.AllocMCG, d.FreeMCG, c.NumMCGs / 2},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[uint32]bool{}
			var last uint32
			for range x.n {
				n, err := x.alloc()
				require.NoError(t, err)
				require.False(t, seen[n])
				seen[n], last = true, n
			}
			_, err := x.alloc()
			require.ErrorIs(t, err, fw.ErrExhausted)
			x.free(last)
			n, err := x.alloc()
			require.NoError(t, err)
			assert.Equal(t, last, n)
		})
	}
	var uars []*fw.UAR
	for range c.NumUARs - prm.ReservedUARs {
		u, err := d.AllocUAR()
		require.NoError(t, err)
		uars = append(uars, u)
	}
	_, err := d.AllocUAR()
	require.ErrorIs(t, err, fw.ErrExhausted)
	uars[7].Free()
	u, err := d.AllocUAR()
	require.NoError(t, err)
	assert.Equal(t, uars[7].Index(), u.Index())
}

func TestAlignedQPs(t *testing.T) {
	d := open(t, newFunction(t, newModel(t, model.Config{})), fw.Config{})
	first, err := d.AllocQPs(t.Context(), 5000, 4096)
	require.NoError(t, err)
	assert.Zero(t, first%4096)
	assert.Greater(t, first, d.Caps().SpecialQPs)
}

// TestMTT has the adapter read the translations of a region of many chunks.
func TestMTT(t *testing.T) {
	f := newFunction(t, newModel(t, model.Config{}))
	d := open(t, f, fw.Config{})
	ctx := t.Context()
	const pages = 100000 // more than three chunks of the table
	m, err := d.AllocMTT(ctx, pages)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, m.Len(), pages)
	list := make([]uint64, pages)
	for i := range list {
		list[i] = uint64(i+1) << 12
	}
	require.NoError(t, m.Write(0, list))
	require.NoError(t, m.Write(pages-1, []uint64{7 << 12}))
	for _, x := range []struct {
		first int
		pages []uint64
	}{{-1, nil}, {m.Len(), []uint64{0}}, {0, make([]uint64, m.Len()+1)}, {0, []uint64{1}}, {1 << 62, []uint64{0}}} {
		assert.ErrorIs(t, m.Write(x.first, x.pages), fw.ErrInvalid)
	}
	m.Free()
	m.Free()
	for _, n := range []int{0, -1, int(d.Caps().NumMTTs) + 1} {
		_, err := d.AllocMTT(ctx, n)
		assert.ErrorIs(t, err, fw.ErrInvalid)
	}
	_, err = d.AllocMTT(ctx, int(d.Caps().NumMTTs))
	assert.ErrorIs(t, err, fw.ErrExhausted, "a part is reserved")
	all := 0
	for {
		if _, err := d.AllocMTT(ctx, 1<<18); err != nil {
			require.ErrorIs(t, err, fw.ErrExhausted)
			break
		}
		all++
	}
	assert.Equal(t, int(d.Caps().NumMTTs)>>18-1, all)
	require.NoError(t, d.Close())
	assert.ErrorIs(t, m.Write(0, list), fw.ErrClosed)
}

// TestRegion makes a memory region that the adapter accepts, whose entry in the ICM the driver sees.
func TestRegion(t *testing.T) {
	d := open(t, newFunction(t, newModel(t, model.Config{})), fw.Config{})
	ctx := t.Context()
	q, err := d.AllocQueue(ctx, 3*prm.ICMPageSize)
	require.NoError(t, err)
	index, err := d.AllocMPT(ctx)
	require.NoError(t, err)
	pd, err := d.AllocPD()
	require.NoError(t, err)
	b := make([]byte, prm.MPTOwner.Layout.Size)
	prm.MPTOwner.Put(b, prm.MPTOwnerSW)
	prm.MPTMemory.Put(b, 1)
	prm.MPTLocalRead.Put(b, 1)
	prm.MPTRegion.Put(b, 1)
	prm.MPTIndex.Put(b, uint64(index))
	prm.MPTPD.Put(b, uint64(pd))
	prm.MPTStart.Put(b, 0x10000)
	prm.MPTLength.Put(b, 3*prm.ICMPageSize)
	prm.MPTMTTLow.Put(b, q.MTT.Offset())
	prm.MPTLogPage.Put(b, 12)
	require.NoError(t, d.Cmd(ctx, prm.CmdSW2HWMPT, fw.Args{In: b, Modifier: index}))
	require.NoError(t, d.WithMPT(index, func(e []byte) {
		assert.Len(t, e, prm.MPTStride)
		assert.Equal(t, prm.MPTOwnerHW, prm.MPTOwner.Get(e))
		assert.EqualValues(t, 0x10000, prm.MPTStart.Get(e))
	}))
	require.NoError(t, d.Cmd(ctx, prm.CmdHW2SWMPT, fw.Args{Modifier: index, OpModifier: 1}))
	assert.ErrorIs(t, d.WithMPT(d.Caps().NumMPTs, func([]byte) {}), fw.ErrInvalid)
	assert.ErrorIs(t, d.WithMPT(d.Caps().NumMPTs-1, func([]byte) {}), fw.ErrInvalid, "not mapped")
	require.NoError(t, d.Close())
	assert.ErrorIs(t, d.WithMPT(index, func([]byte) {}), fw.ErrClosed)
}

func TestRecords(t *testing.T) {
	f := newFunction(t, newModel(t, model.Config{}))
	d := open(t, f, fw.Config{})
	seen := map[uint64]bool{}
	var list []*fw.Record
	for range 3000 {
		r, err := d.AllocRecord()
		require.NoError(t, err)
		require.Len(t, r.Bytes, 8)
		require.Zero(t, r.IOVA%64)
		require.False(t, seen[r.IOVA])
		seen[r.IOVA] = true
		fw.Store32(r.Bytes, 0x01020304)
		list = append(list, r)
	}
	var b [4]byte
	require.True(t, f.Memory().Read(list[2999].IOVA, b[:]))
	assert.EqualValues(t, 0x01020304, binary.BigEndian.Uint32(b[:]))
	assert.EqualValues(t, 0x01020304, fw.Load32(list[5].Bytes))
	regions := f.Memory().Len()
	at := list[5].IOVA
	d.FreeRecord(list[5])
	d.FreeRecord(list[5])
	r, err := d.AllocRecord()
	require.NoError(t, err)
	assert.Equal(t, at, r.IOVA)
	assert.Zero(t, fw.Load32(r.Bytes))
	assert.Equal(t, regions, f.Memory().Len())
}

func TestBlueFlame(t *testing.T) {
	d := open(t, newFunction(t, newModel(t, model.Config{})), fw.Config{})
	u, err := d.AllocUAR()
	require.NoError(t, err)
	half := d.Caps().BlueFlameSize / 2
	require.NoError(t, u.BlueFlame(0, make([]byte, half)))
	require.NoError(t, u.BlueFlame(half, make([]byte, 64)))
	u.Send(0xffffff) // no such QP
	for _, x := range []struct {
		off uint32
		n   int
	}{{0, 0}, {0, 63}, {1, 64}, {half - 64, 128}, {prm.UARPageSize, 64}, {1 << 31, 64}} {
		assert.ErrorIs(t, u.BlueFlame(x.off, make([]byte, x.n)), fw.ErrInvalid, "%+v", x)
	}
	s, page, flame := u.Space()
	assert.Less(t, flame, s.Size())
	assert.EqualValues(t, u.Index()*prm.UARPageSize, page)
	require.NoError(t, d.Err())
}

func TestMemoryLimit(t *testing.T) {
	f := newFunction(t, newModel(t, model.Config{}))
	d := open(t, f, fw.Config{MaxMemory: 32 << 20})
	_, err := d.AllocBuffer(64 << 20)
	require.ErrorIs(t, err, fw.ErrExhausted)
	_, err = d.AllocBuffer(0)
	require.ErrorIs(t, err, fw.ErrInvalid)
	n := f.Memory().Len()
	m, err := d.AllocBuffer(1)
	require.NoError(t, err)
	require.NoError(t, d.FreeBuffer(m))
	require.NoError(t, d.FreeBuffer(m))
	_, err = d.AllocQueue(t.Context(), 64<<20)
	require.ErrorIs(t, err, fw.ErrExhausted)
	assert.Equal(t, n, f.Memory().Len())
}
