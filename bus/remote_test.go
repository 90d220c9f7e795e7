package bus_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/bus"
)

// remote is memory that is reached by copies.
type remote struct {
	mu   sync.Mutex
	b    []byte
	fail error // of all accesses, or nil
}

func (r *remote) ReadAt(b []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return copy(b, r.b[off:]), r.fail
}

func (r *remote) WriteAt(b []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return len(b) / 2, r.fail
	}
	return copy(r.b[off:], b), nil
}

func (r *remote) word(off uint64, f func(old uint64) uint64) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return 0, r.fail
	}
	old := binary.NativeEndian.Uint64(r.b[off:])
	binary.NativeEndian.PutUint64(r.b[off:], f(old))
	return old, nil
}

func (r *remote) FetchAdd(off, n uint64) (uint64, error) {
	return r.word(off, func(old uint64) uint64 { return old + n })
}

func (r *remote) CompareSwap(off, compare, swap uint64) (uint64, error) {
	return r.word(off, func(old uint64) uint64 {
		if old == compare {
			return swap
		}
		return old
	})
}

// TestMapRemote reads and writes a range of bytes, remote memory and bytes.
func TestMapRemote(t *testing.T) {
	t.Parallel()
	const base = 1 << 20
	m := bus.NewMap()
	first, r, last := make([]byte, 16), &remote{b: make([]byte, 24)}, make([]byte, 16)
	require.NoError(t, m.Add(base, 16, first, true))
	require.NoError(t, m.AddRemote(base+16, 24, r, true))
	require.NoError(t, m.Add(base+40, 16, last, true))
	require.ErrorIs(t, m.AddRemote(base+8, 8, r, true), bus.ErrOverlap)
	require.Error(t, m.AddRemote(1<<63, 0, r, true), "no bytes")

	data := make([]byte, 40)
	for i := range data {
		data[i] = byte(i + 1)
	}
	require.True(t, m.Write(base+8, data))
	assert.Equal(t, data[:8], first[8:])
	assert.Equal(t, data[8:32], r.b)
	assert.Equal(t, data[32:], last[:8])
	got := make([]byte, 40)
	require.True(t, m.Read(base+8, got))
	assert.Equal(t, data, got)

	v := m.Begin()
	assert.Nil(t, v.Slice(base+16, 8, false), "remote memory has no slice")
	v.End()
	r.fail = errors.New("gone")
	assert.False(t, m.Write(base+16, data[:8]), "a part is written")
	r.fail = nil
	require.NoError(t, m.AddRemote(base+64, 8, r, false))
	assert.False(t, m.Write(base+64, data[:1]), "read-only")
	assert.True(t, m.Read(base+64, data[:8]))
	assert.False(t, m.Read(base+64, data[:9]), "beyond the end")
	list, err := m.Remove(base, 56)
	require.NoError(t, err)
	assert.Equal(t, [][]byte{first, nil, last}, list)
	assert.False(t, m.Read(base+16, data[:1]), "removed")
}

// TestAtomic executes operations on words of all kinds of memory.
func TestAtomic(t *testing.T) {
	t.Parallel()
	const base = 1 << 20
	r := &remote{b: make([]byte, 20)}
	fault := func(uint64) { t.Error("a fault") }
	for name, add := range map[string]func(m *bus.Map, iova, size uint64, writable bool) error{
		"bytes": func(m *bus.Map, iova, size uint64, writable bool) error {
			return m.Add(iova, size, make([]byte, size), writable)
		},
		"guarded": func(m *bus.Map, iova, size uint64, writable bool) error {
			return m.AddGuarded(iova, make([]byte, size), writable, fault)
		},
		"remote": func(m *bus.Map, iova, size uint64, writable bool) error {
			return m.AddRemote(iova, size, r, writable)
		},
	} {
		m := bus.NewMap()
		require.NoError(t, add(m, base, 20, true))
		require.NoError(t, add(m, base+32, 8, false))
		v := m.Begin()
		for _, s := range []struct {
			a    bus.Atomic
			want uint64
		}{{bus.Atomic{Operand: 5}, 0}, {bus.Atomic{Operand: 2}, 5},
			{bus.Atomic{IsSwap: true, Compare: 7, Operand: 1}, 7},
			{bus.Atomic{IsSwap: true, Compare: 7, Operand: 3}, 1}, {bus.Atomic{}, 1}} {
			old, ok := v.Atomic(base+8, s.a)
			require.True(t, ok, name)
			assert.Equal(t, s.want, old, "%s: %+v", name, s.a)
		}
		for where, at := range map[string]uint64{"not aligned": base + 4, "over the end": base + 16,
			"read-only": base + 32, "not mapped": base + 128} {
			_, ok := v.Atomic(at, bus.Atomic{})
			assert.False(t, ok, "%s: %s", name, where)
		}
		v.End()
	}
	m := bus.NewMap()
	require.NoError(t, m.AddRemote(base, 20, r, true))
	r.fail = errors.New("gone")
	v := m.Begin()
	defer v.End()
	_, ok := v.Atomic(base, bus.Atomic{})
	assert.False(t, ok)
}

// TestMapAllocs checks that accesses to bytes do not allocate: a device reads its queues through a Map.
func TestMapAllocs(t *testing.T) {
	m := bus.NewMap()
	require.NoError(t, m.Add(4096, 64, make([]byte, 64), true))
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		var b [8]byte
		if !m.Read(4096, b[:]) || !m.Write(4104, b[:]) {
			t.Error("the access failed")
		}
	}))
}
