package rvt

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// A library lends memory, counts loans, and fails a test in which memory is used without one.
type library struct {
	t        *testing.T
	out      atomic.Int64
	borrowed atomic.Int64
}

func (l *library) Borrow() uint32 {
	l.out.Add(1)
	l.borrowed.Add(1)
	return 7
}

func (l *library) Return(loan uint32) {
	require.EqualValues(l.t, 7, loan)
	require.GreaterOrEqual(l.t, l.out.Add(-1), int64(0))
}

// lentMemory is memory of a library, in pieces of a few bytes. With a nil library it can be copied only.
type lentMemory struct {
	ci.Memory
	b      []byte
	size   uint64
	from   *library
	copies atomic.Int64
}

func (m *lentMemory) Slice(uint64, uint64) []byte { return nil }

func (m *lentMemory) ReadAt(p []byte, off int64) (int, error) {
	m.copies.Add(1)
	return m.Memory.ReadAt(p, off)
}

func (m *lentMemory) WriteAt(p []byte, off int64) (int, error) {
	m.copies.Add(1)
	return m.Memory.WriteAt(p, off)
}

func (m *lentMemory) Lender() Lender {
	if m.from == nil {
		return nil
	}
	return m.from
}

func (m *lentMemory) Views(from Lender, dst [][]byte, off, n uint64, _ bool) ([][]byte, bool) {
	require.Same(m.from.t, m.from, from)
	require.Positive(m.from.t, m.from.out.Load(), "views need a loan")
	for n > 0 {
		if len(dst) == cap(dst) {
			return dst, false
		}
		k := min(n, m.size-off%m.size)
		dst = append(dst, m.b[off:off+k])
		off, n = off+k, n-k
	}
	return dst, true
}

// TestLentMemory sends from and receives to memory that is borrowed: of one library, of two in one message, in more
// pieces than a batch holds, and of none. The data arrives, and all loans are returned.
func TestLentMemory(t *testing.T) {
	l := &wireLink{mtu: ci.MTU4096, hints: linkKinds[0].hints}
	a, b := pair(t, l, ci.RC)
	one, two := &library{t: t}, &library{t: t}
	for _, tt := range []struct {
		name        string
		from        [2]*library
		size        uint64
		isDirect    bool // no byte is copied
		wantsBorrow bool
	}{
		{"one library", [2]*library{one, one}, 4096, true, true},
		{"two libraries", [2]*library{one, two}, 4096, false, true},
		{"many pieces", [2]*library{one, one}, 3, false, true},
		{"none", [2]*library{nil, nil}, 4096, false, false},
	} {
		var mems [2]*lentMemory
		var regions [2]ci.Region
		before := one.borrowed.Load()
		for i := range mems {
			data := make([]byte, 8192)
			fillRandom(rand.New(rand.NewPCG(uint64(i), 1)), data)
			mems[i] = &lentMemory{Memory: ci.Bytes(data), b: data, size: tt.size, from: tt.from[i]}
			mr, err := a.pd.RegisterMR(ci.MRCreate{Memory: mems[i], Access: allRemote})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, mr.Destroy()) })
			regions[i] = mr.Region()
		}
		want := append(bytes.Clone(mems[0].b[10:5010]), mems[1].b[100:3100]...)

		b.recv(ci.RecvWR{ID: 1, SGL: b.sge(0, 8192)})
		a.send(ci.SendWR{ID: 1, SGL: []ci.SGE{regions[0].SGE(10, 5000), regions[1].SGE(100, 3000)}})
		wcs := b.poll()
		require.Len(t, wcs, 1, tt.name)
		require.Equal(t, ci.WCSuccess, wcs[0].Status, tt.name)
		require.Equal(t, want, b.buf[:8000], tt.name)

		a.recv(ci.RecvWR{ID: 2, SGL: []ci.SGE{regions[0].SGE(20, 4000), regions[1].SGE(0, 4000)}})
		b.send(ci.SendWR{ID: 2, SGL: b.sge(0, 8000)})
		require.Len(t, a.poll(), 1, tt.name)
		require.Equal(t, want[:4000], mems[0].b[20:4020], tt.name)
		require.Equal(t, want[4000:], mems[1].b[:4000], tt.name)

		require.Equal(t, tt.isDirect, mems[0].copies.Load()+mems[1].copies.Load() == 0, tt.name)
		require.Equal(t, tt.wantsBorrow, one.borrowed.Load() > before, tt.name)
		require.Zero(t, one.out.Load()+two.out.Load(), "%s: loans that are not returned", tt.name)
	}
}
