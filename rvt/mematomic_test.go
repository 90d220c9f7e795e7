package rvt

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/wire"
)

// atomicMemory is storage that executes atomics itself and has no slices.
type atomicMemory struct{ *farMemory }

func (m atomicMemory) CompareSwap(off, compare, swap uint64) (uint64, error) {
	b := m.b[off:]
	old := binary.NativeEndian.Uint64(b)
	if old == compare {
		binary.NativeEndian.PutUint64(b, swap)
	}
	return old, nil
}

func (m atomicMemory) FetchAdd(off, n uint64) (uint64, error) {
	b := m.b[off:]
	old := binary.NativeEndian.Uint64(b)
	binary.NativeEndian.PutUint64(b, old+n)
	return old, nil
}

// TestAtomicMemory executes atomics on storage that this process cannot address.
func TestAtomicMemory(t *testing.T) {
	r := newMemRig(t, nil)
	far := atomicMemory{&farMemory{addr: 0x1000, b: make([]byte, 64)}}
	m, err := r.pd.RegisterMR(ci.MRCreate{Memory: far, Access: ci.LocalWrite})
	require.NoError(t, err)
	var h holds
	at := r.at(&h, r.pd, m.Region(), 8, 16)
	for _, x := range []struct {
		op            wire.Op
		swap, compare uint64
		old, now      uint64
	}{
		{wire.OpFetchAdd, 5, 0, 0, 5},
		{wire.OpCompareSwap, 9, 4, 5, 5},
		{wire.OpCompareSwap, 9, 5, 5, 9},
	} {
		old, err := at.atomic(x.op, x.swap, x.compare)
		require.NoError(t, err)
		require.Equal(t, x.old, old)
		require.Equal(t, x.now, binary.NativeEndian.Uint64(far.b[8:]))
	}
	_, err = at.advance(4).atomic(wire.OpFetchAdd, 1, 0)
	require.ErrorIs(t, err, errMisaligned)
	h.release()
	r.destroy(m)
	r.close()
}
