package mlx4_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus/local"
	"ciddk/ci"
	"ciddk/hca/mlx4"
	"ciddk/internal/mlx4/prm"
	"ciddk/link/direct"
)

// mapped is an adapter with an FMR and two DMA mappings of two pages each.
type mapped struct {
	*single
	ci.FMR
	mem   [2][]byte
	dma   [2]ci.DMA
	pages [2][]uint64
}

func newMapped(t *testing.T) *mapped {
	o := &mapped{single: newSingle(t, true)}
	for i := range o.mem {
		b := make([]byte, 3*4096)
		d, err := o.c.MapDMA(ci.Bytes(b))
		require.NoError(t, err)
		require.Len(t, d.Ranges(), 1)
		first := (d.Ranges()[0].Addr + 4095) &^ 4095
		o.dma[i], o.mem[i] = d, b[first-d.Ranges()[0].Addr:]
		o.pages[i] = []uint64{first, first + 4096}
	}
	var err error
	o.FMR, err = o.pd.AllocFMR(ci.FMRCreate{MaxPages: 2, MaxMaps: 2, PageShift: 12,
		Access: ci.LocalWrite | ci.RemoteWrite})
	require.NoError(t, err)
	return o
}

// writeTo writes one byte through a key.
func (o *mapped) writeTo(t *testing.T, r ci.Remote) {
	t.Helper()
	o.b[0] = 'x'
	s := o.mr.Region()
	_, err := o.qp.PostSend([]ci.SendWR{{Op: ci.OpWrite, Flags: ci.SendSignaled, Remote: r,
		SGL: []ci.SGE{{Addr: s.Addr, Length: 1, LKey: s.LKey}}}})
	require.NoError(t, err)
	o.complete(t, 1)
}

// TestFMRKeepsMemory checks that memory of all mappings remains mapped until UnmapFMRs: the adapter may have read the
// entries of the earlier ones.
func TestFMRKeepsMemory(t *testing.T) {
	o := newMapped(t)
	first, err := o.Map(o.pages[0], 0x10000)
	require.NoError(t, err)
	o.writeTo(t, first.Remote(4096))
	require.EqualValues(t, 'x', o.mem[0][4096])
	second, err := o.Map(o.pages[1][1:], 0x20000)
	require.NoError(t, err)
	require.NotEqual(t, first.RKey, second.RKey)
	require.ErrorIs(t, o.dma[0].Destroy(), ci.ResourceBusy, "of the previous mapping")
	_, err = o.Map(o.pages[1], 0x20000)
	require.ErrorIs(t, err, ci.InsufficientResources)
	require.ErrorIs(t, o.FMR.Destroy(), ci.ResourceBusy)
	o.writeTo(t, second.Remote(9))
	require.EqualValues(t, 'x', o.mem[1][4096+9])

	require.NoError(t, o.pd.UnmapFMRs([]ci.FMR{o.FMR, o.FMR}), "a list may have an FMR twice")
	require.NoError(t, o.dma[0].Destroy())
	_, err = o.Map(o.pages[0], 0x10000)
	require.ErrorIs(t, err, ci.InvalidParameter, "its memory is not mapped any more")
	_, err = o.Map([]uint64{o.pages[1][0], o.pages[0][0]}, 0x10000)
	require.ErrorIs(t, err, ci.InvalidParameter, "part of it")
	require.NoError(t, o.dma[1].Destroy(), "a rejected Map keeps nothing")
	o.close(t, o.FMR)
}

// TestFMRFailure fails SYNC_TPT, or the adapter as a whole, while an FMR is mapped. Maps fail from then on, and all can
// be released.
func TestFMRFailure(t *testing.T) {
	for name, tt := range map[string]struct {
		fail  func(*testing.T, *mapped)
		unmap ci.Status // of the first UnmapFMRs
	}{
		"SYNC_TPT fails": {func(_ *testing.T, o *mapped) { o.m.FailCommand(prm.CmdSyncTPT, prm.InternalErr, 1) },
			ci.ErrorStatus},
		"SYNC_TPT hangs":     {func(_ *testing.T, o *mapped) { o.m.HangCommand(prm.CmdSyncTPT) }, ci.Success},
		"catastrophic error": {func(t *testing.T, o *mapped) { o.m.FailDevice(); o.wait(t) }, ci.Success},
		"unplugged":          {func(t *testing.T, o *mapped) { o.f.Unplug(); o.wait(t) }, ci.Success},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the time limit of a command passes
			o := newMapped(t)
			_, err := o.Map(o.pages[0], 0x10000)
			require.NoError(t, err)
			tt.fail(t, o)
			err = o.pd.UnmapFMRs([]ci.FMR{o.FMR})
			require.Equal(t, tt.unmap, ci.StatusOf(err), "%v", err)
			if err != nil {
				require.NoError(t, o.pd.UnmapFMRs([]ci.FMR{o.FMR}), "it has failed, and uses nothing any more")
			}
			_, err = o.Map(o.pages[0], 0x10000)
			assert.ErrorIs(t, err, ci.InvalidState)
			_, err = o.pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12})
			assert.ErrorIs(t, err, ci.InvalidState)
			o.close(t, o.FMR, o.dma[0], o.dma[1])
		})
	}
}

// repeating is a source of random bits for keys: whole words from a list, the last one again and again.
type repeating struct{ words []uint32 }

func (r *repeating) Read(b []byte) (int, error) {
	for at := 0; at+4 <= len(b); at += 4 {
		binary.BigEndian.PutUint32(b[at:], r.words[0])
		if len(r.words) > 1 {
			r.words = r.words[1:]
		}
	}
	return len(b), nil
}

// TestFMRKeys checks that no mapping has a key of an earlier one before UnmapFMRs, whatever bits the source returns,
// and that there is an R_Key only for a region with remote rights.
func TestFMRKeys(t *testing.T) {
	f := local.New(newModel(t, new(direct.Link)), "model 0")
	c := config
	source := &repeating{words: []uint32{0}}
	c.Rand = source
	h, err := mlx4.New(t.Context(), f, c)
	require.NoError(t, err)
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	b := make([]byte, 2*4096)
	d, err := ca.MapDMA(ci.Bytes(b))
	require.NoError(t, err)
	page := (d.Ranges()[0].Addr + 4095) &^ 4095
	fmr, err := pd.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 3, PageShift: 12, Access: ci.LocalWrite})
	require.NoError(t, err)
	source.words = []uint32{1 << 20, 2 << 20, 1 << 20, 2 << 20, 3 << 20}
	keys := map[ci.Key]bool{}
	for range 3 {
		r, err := fmr.Map([]uint64{page}, 0x10000)
		require.NoError(t, err)
		keys[r.LKey] = true
		assert.Zero(t, r.RKey, "no remote rights")
	}
	assert.Len(t, keys, 3)
	require.NoError(t, pd.UnmapFMRs([]ci.FMR{fmr}))
	source.words = []uint32{1 << 20, 4 << 20}
	r, err := fmr.Map([]uint64{page}, 0x10000)
	require.NoError(t, err)
	assert.True(t, keys[r.LKey], "of an earlier one, after the unmap")
	require.NoError(t, pd.UnmapFMRs([]ci.FMR{fmr}))
	for _, o := range []ci.Object{fmr, d, pd, ca} {
		require.NoError(t, o.Destroy())
	}
	require.NoError(t, h.Close())
	require.NoError(t, f.Close())
}

// TestBadFMRPages checks that a Map with invalid arguments fails and leaves the FMR as it was.
func TestBadFMRPages(t *testing.T) {
	o := newMapped(t)
	for name, tt := range map[string]struct {
		pages []uint64
		iova  uint64
	}{
		"unaligned iova":     {o.pages[0], 0x10008},
		"iova wraps around":  {o.pages[0], ^uint64(0) &^ 4095},
		"unaligned page":     {[]uint64{o.pages[0][0] + 8}, 0x10000},
		"no pages":           {nil, 0x10000},
		"three pages of two": {[]uint64{o.pages[0][0], o.pages[0][0], o.pages[0][0]}, 0x10000},
		"not mapped":         {[]uint64{1 << 50}, 0x10000},
	} {
		_, err := o.Map(tt.pages, tt.iova)
		require.ErrorIs(t, err, ci.InvalidParameter, name)
	}
	for range 2 {
		_, err := o.Map(o.pages[0], 0x10000)
		require.NoError(t, err, "a rejected Map does not count")
	}
	require.NoError(t, o.pd.UnmapFMRs([]ci.FMR{o.FMR}))
	o.close(t, o.FMR, o.dma[0], o.dma[1])
}
