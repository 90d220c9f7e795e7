package kproxy

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ciddk/ci"
)

// TestProcessMemory reaches memory of a process, which then unmaps it and exits. Every access fails afterwards and
// changes nothing.
func TestProcessMemory(t *testing.T) {
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	addr := ci.Bytes(b).Addr()
	var locks atomicLocks
	p := newProcess(os.Getpid(), 64, &locks)
	m, err := p.Memory(addr, uint64(2*page), ci.LocalWrite)
	require.NoError(t, err)
	_, err = m.WriteAt([]byte("across"), int64(page-3))
	require.NoError(t, err)
	assert.Equal(t, "across", string(b[page-3:page+3]))
	_, err = m.ReadAt(make([]byte, 2), int64(2*page-1))
	require.ErrorIs(t, err, ci.InvalidParameter, "beyond the end")

	atomics := m.(ci.AtomicMemory)
	for _, want := range []uint64{0, 5} {
		old, err := atomics.FetchAdd(8, 5)
		require.NoError(t, err)
		assert.Equal(t, want, old)
	}
	old, err := atomics.CompareSwap(8, 10, 77)
	require.NoError(t, err)
	assert.EqualValues(t, 10, old)
	old, err = atomics.CompareSwap(8, 10, 78)
	require.NoError(t, err)
	assert.EqualValues(t, 77, old, "not swapped")

	require.NoError(t, unix.Mprotect(b[page:], unix.PROT_READ))
	_, err = p.Memory(addr, uint64(2*page), ci.LocalWrite)
	require.ErrorIs(t, err, ci.InvalidPermission)
	_, err = p.Memory(addr, uint64(2*page), 0)
	require.NoError(t, err)
	require.NoError(t, unix.Munmap(b))
	_, err = m.ReadAt(make([]byte, 8), 0)
	require.Error(t, err)
	_, err = m.WriteAt(make([]byte, 8), 0)
	require.Error(t, err)
	_, err = atomics.FetchAdd(8, 5)
	require.Error(t, err)

	own := make([]byte, 8)
	m, err = p.Memory(ci.Bytes(own).Addr(), 8, ci.LocalWrite)
	require.NoError(t, err)
	p.close()
	_, err = m.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, ci.InvalidState)
	assert.Zero(t, own[0])
	_, err = p.Memory(ci.Bytes(own).Addr(), 8, 0)
	require.ErrorIs(t, err, ci.InvalidState)

	stranger := newProcess(0, 64, &locks)
	_, err = stranger.Memory(4096, 8, 0)
	require.ErrorIs(t, err, ci.InvalidPermission)
}
