package arena

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newMemory(t interface {
	require.TestingT
	Skip(...any)
}, size int) *Memory {
	if runtime.GOOS != "linux" {
		t.Skip("no shared memory on this system")
	}
	m, err := Create(size)
	require.NoError(t, err)
	return m
}

// TestShared checks that two mappings of the memory are one, that the size cannot change, and that a client opens no
// other file.
func TestShared(t *testing.T) {
	t.Parallel()
	m := newMemory(t, 4*PageSize)
	defer func() { require.NoError(t, m.Close()); require.NoError(t, m.Close()) }()
	client, err := Open(m.File())
	require.NoError(t, err)
	require.Len(t, client.Bytes(), 4*PageSize)
	m.Bytes()[5000] = 42
	require.EqualValues(t, 42, client.Bytes()[5000])
	for _, size := range []int64{0, PageSize, 8 * PageSize} {
		require.Error(t, client.File().Truncate(size), "%d", size)
	}
	require.NoError(t, client.Close())
	require.EqualValues(t, 42, m.Bytes()[5000])

	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	_, err = Open(f)
	require.Error(t, err)
	require.NoError(t, f.Close())
	for _, size := range []int{0, -PageSize, 100} {
		_, err := Create(size)
		require.ErrorContains(t, err, "multiple of 4096")
	}
}

// TestPages checks the allocator against a model: allocations do not overlap, are zero, and everything can be
// allocated again in the end.
func TestPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const size = 16 * PageSize
		m := newMemory(t, size)
		defer func() { require.NoError(t, m.Close()) }()
		p := NewPages(m, 100)
		type part struct {
			off uint64
			b   []byte
		}
		var parts []part
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(parts) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(parts)-1).Draw(t, "which")
				p.Free(parts[i].off)
				p.Free(parts[i].off) // ignored
				parts = append(parts[:i], parts[i+1:]...)
				continue
			}
			n := rapid.IntRange(1, 5*PageSize).Draw(t, "size")
			off, b, err := p.Alloc(n)
			if err != nil {
				require.ErrorIs(t, err, ErrFull)
				continue
			}
			require.Len(t, b, n)
			require.GreaterOrEqual(t, off, uint64(PageSize))
			require.Equal(t, make([]byte, n), b)
			for i := range b {
				b[i] = 0xff
			}
			for _, q := range parts {
				require.True(t, off+uint64(n) <= q.off || q.off+uint64(len(q.b)) <= off, "overlap")
			}
			parts = append(parts, part{off, b})
		}
		for _, q := range parts {
			require.Equal(t, len(q.b), bytes.Count(q.b, []byte{0xff}))
			p.Free(q.off)
		}
		require.Zero(t, p.Used())
		_, _, err := p.Alloc(size - PageSize)
		require.NoError(t, err)
		_, _, err = p.Alloc(1)
		require.ErrorIs(t, err, ErrFull)
		_, _, err = p.Alloc(0)
		require.Error(t, err)
	})
}

func TestDoorbell(t *testing.T) {
	t.Parallel()
	d, err := NewDoorbell()
	require.NoError(t, err)
	r, err := OpenRinger(d.File())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NoError(t, r.Ring())
	require.NoError(t, r.Ring())
	require.NoError(t, d.Wait())
	woken := make(chan error)
	go func() { woken <- d.Wait() }()
	require.NoError(t, r.Ring())
	require.NoError(t, <-woken)
	go func() { woken <- d.Wait() }()
	require.NoError(t, d.Close())
	require.Error(t, <-woken)
	require.NoError(t, d.Close())
	require.NoError(t, r.Close())
}
