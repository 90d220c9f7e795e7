package bus_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
)

// TestGuarded truncates a file that is mapped. Accesses to the bytes that are missing fail, and are reported with their
// address; the others succeed.
func TestGuarded(t *testing.T) {
	const base, page = 1 << 20, 4096
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(2*page))
	b, err := syscall.Mmap(int(f.Fd()), 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Munmap(b)) }()
	m := bus.NewMap()
	var faults []uint64
	require.NoError(t, m.AddGuarded(base, b, true, func(iova uint64) { faults = append(faults, iova) }))

	want := []byte("a message")
	require.True(t, m.Write(base+page-4, want))
	got := make([]byte, len(want))
	require.True(t, m.Read(base+page-4, got))
	require.Equal(t, want, got)
	require.Nil(t, m.Slice(base, 8, false), "a slice could fault anywhere")
	require.NoError(t, f.Truncate(page))
	require.True(t, m.Read(base+page-8, got[:8]))
	require.Empty(t, faults)
	for name, access := range map[string]func() bool{
		"read":  func() bool { return m.Read(base+page, got) },
		"dword": func() bool { return m.Write(base+page, got[:4]) },
		"write": func() bool { return m.Write(base+page, got) },
		"atomic": func() bool {
			v := m.Begin()
			defer v.End()
			_, ok := v.Atomic(base+page, bus.Atomic{})
			return ok
		},
	} {
		faults = nil
		assert.False(t, access(), name)
		assert.Equal(t, []uint64{base + page}, faults, name)
	}
	_, err = m.Remove(base, 2*page)
	require.NoError(t, err, "no access remains")
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		var b [8]byte
		m.Read(base, b[:])
	}))
}
