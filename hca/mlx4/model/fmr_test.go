package model_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bus"
	"ciddk/internal/mlx4/prm"
)

// fmrStage is a connection over UC, which a rejected write does not end, and an FMR of its target.
type fmrStage struct {
	*testing.T
	a, b  *peer
	index uint32
	pages *bus.DMA
	mtts  uint64
	entry []byte
}

func newFMRStage(t *testing.T) *fmrStage {
	s := &fmrStage{T: t, index: 0x130}
	s.a, s.b = newPair(t, prm.ServiceUC)
	s.pages = s.b.alloc(4 * prm.ICMPageSize)
	s.mtts = s.b.mtts(s.pages)
	s.entry = s.b.icmMem.Bytes[icmMPT+int(s.index)*prm.MPTStride:][:prm.MPTStride]
	s.create()
	return s
}

func (s *fmrStage) create() {
	s.b.with(prm.CmdSW2HWMPT, s.index, 0, func(x []byte) {
		prm.MPTOwner.Put(x, prm.MPTOwnerSW)
		prm.MPTRegion.Put(x, 1)
		prm.MPTLocalWrite.Put(x, 1)
		prm.MPTRemoteWrite.Put(x, 1)
		prm.MPTIndex.Put(x, uint64(s.index))
		prm.MPTPD.Put(x, testPD)
		prm.MPTMTTLow.Put(x, s.mtts)
		prm.MPTLogPage.Put(x, 12)
	})
}

// remap edits the entry and its MTTs in the ICM, as a driver does, and returns the key.
func (s *fmrStage) remap(variant uint32, pages ...int) uint64 {
	prm.MPTOwner.Put(s.entry, prm.MPTOwnerSW)
	for i, p := range pages {
		binary.BigEndian.PutUint64(s.b.icmMem.Bytes[icmMTT+int(s.mtts)+8*i:], s.pages.IOVA+uint64(p)<<12|1)
	}
	index := s.index | variant<<12
	prm.MPTIndex.Put(s.entry, uint64(index))
	prm.MPTStart.Put(s.entry, fmrStart)
	prm.MPTLength.Put(s.entry, uint64(len(pages))<<12)
	prm.MPTOwner.Put(s.entry, prm.MPTOwnerHW)
	return uint64(prm.KeyOf(index))
}

const fmrStart = 0x7000_0000

// writes writes to the region of a key, and reports whether that arrived at a byte of the pages.
func (s *fmrStage) writes(key, addr uint64, at int) bool {
	s.Helper()
	s.pages.Bytes[at] = 0
	s.a.mr.Bytes[0] = 'x'
	s.a.qp.post(prm.WQEWrite, 0, remoteSegment(key, addr), dataSegment(1, s.a.mr.key, s.a.mr.start))
	requireCQE(s.T, s.a.cq.wait(), s.a.qp.num, true, prm.WQEWrite)
	s.b.qp.postRecv(dataSegment(0, s.b.mr.key, s.b.mr.start))
	s.a.qp.post(prm.WQEWriteImm, 6, remoteSegment(s.b.mr.key, s.b.mr.start), dataSegment(1, s.a.mr.key, s.a.mr.start))
	requireCQE(s.T, s.a.cq.wait(), s.a.qp.num, true, prm.WQEWriteImm)
	requireCQE(s.T, s.b.cq.wait(), s.b.qp.num, false, prm.CQERecvWriteImm) // the write before has been executed
	return s.pages.Bytes[at] == 'x'
}

// TestFMR maps a region by editing its entry. New keys are valid at once, and the previous ones until a new one is used
// or until SYNC_TPT.
func TestFMR(t *testing.T) {
	s := newFMRStage(t)
	require.False(t, s.writes(uint64(prm.KeyOf(s.index)), 0, 0), "of no bytes")
	first := s.remap(1, 2, 0)
	require.True(t, s.writes(first, fmrStart, 2<<12))
	require.True(t, s.writes(first, fmrStart+1<<12+5, 5))
	require.False(t, s.writes(first, fmrStart+2<<12, 0), "beyond the end")
	require.False(t, s.writes(first+1, fmrStart, 2<<12), "another key of the index")

	second := s.remap(2, 1)
	require.True(t, s.writes(first, fmrStart, 2<<12), "what the adapter has read is valid until SYNC_TPT")
	require.True(t, s.writes(second, fmrStart, 1<<12))
	require.False(t, s.writes(first, fmrStart, 2<<12), "it has read the entry again")
	variant := s.remap(2|1<<12, 3)
	require.Equal(t, second>>8, variant>>8)
	require.True(t, s.writes(variant, fmrStart, 3<<12), "of which only the low byte is new")
	require.False(t, s.writes(second, fmrStart, 1<<12))
	second = s.remap(2, 1)
	require.True(t, s.writes(second, fmrStart, 1<<12), "a key that was in use before")

	prm.MPTOwner.Put(s.entry, prm.MPTOwnerSW)
	require.True(t, s.writes(second, fmrStart, 1<<12), "before SYNC_TPT")
	s.b.imm(prm.CmdSyncTPT, 0, 0, 0)
	require.False(t, s.writes(second, fmrStart, 1<<12))
	st, _ := s.b.exec(prm.CmdHW2SWMPT, 0, s.index, 1, 0)
	require.Equal(t, prm.BadResState, st, "the entry is not the hardware's")

	require.True(t, s.writes(s.remap(3, 3), fmrStart, 3<<12))
	s.b.imm(prm.CmdSyncTPT, 0, 0, 0)
	require.True(t, s.writes(s.remap(3, 3), fmrStart, 3<<12), "it reads the entry again")
	s.b.imm(prm.CmdHW2SWMPT, 0, s.index, 1)
	require.False(t, s.writes(s.remap(4, 3), fmrStart, 3<<12), "the region is gone")
	s.create()
	require.True(t, s.writes(s.remap(5, 1), fmrStart, 1<<12))
	s.b.closeHCA() // with a mapping
}

// TestBadFMR edits entries in ways that the adapter must not accept. None of them grants access, nor does it harm what
// is mapped afterwards.
func TestBadFMR(t *testing.T) {
	s := newFMRStage(t)
	variant := uint32(1)
	for name, spoil := range map[string]func(){
		"software owns the entry": func() { prm.MPTOwner.Put(s.entry, prm.MPTOwnerSW) },
		"free":                    func() { prm.MPTOwner.Put(s.entry, prm.MPTOwnerFree) },
		"another PD":              func() { prm.MPTPD.Put(s.entry, testPD+1) },
		"a window":                func() { prm.MPTRegion.Put(s.entry, 0) },
		"physical":                func() { prm.MPTPhysical.Put(s.entry, 1) },
		"no bytes":                func() { prm.MPTLength.Put(s.entry, 0) },
		"too many pages":          func() { prm.MPTLength.Put(s.entry, 513<<12) },
		"2^64-1 bytes":            func() { prm.MPTLength.Put(s.entry, 1<<64-1) },
		"small pages":             func() { prm.MPTLogPage.Put(s.entry, 11) },
		"pages of 2^64 bytes":     func() { prm.MPTLogPage.Put(s.entry, 64) },
		"MTTs outside of the ICM": func() { prm.MPTMTTHigh.Put(s.entry, 0xff) },
		"a page not present":      func() { s.b.icmMem.Bytes[icmMTT+s.mtts+7] &^= 1 },
		"no remote write":         func() { prm.MPTRemoteWrite.Put(s.entry, 0) },
		"a page outside of the host's memory": func() {
			binary.BigEndian.PutUint64(s.b.icmMem.Bytes[icmMTT+s.mtts:], 0xdead<<40|1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			good := append([]byte(nil), s.entry...)
			key := s.remap(variant, 0)
			spoil()
			require.False(t, s.writes(key, fmrStart, 0))
			copy(s.entry, good)
			require.True(t, s.writes(s.remap(variant+1, 1), fmrStart, 1<<12), "a good one")
			variant += 2
		})
	}
}
