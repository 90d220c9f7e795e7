package fw

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestIndexes compares the allocator of numbers with a set.
func TestIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint32Range(0, 70).Draw(t, "first")
		limit := first + rapid.Uint32Range(1, 200).Draw(t, "size")
		x := newIndexes("numbers", first, limit)
		used := map[uint32]bool{}
		fits := func(n, align uint32) bool {
			for at := (first + align - 1) &^ (align - 1); at+n <= limit; at += align {
				ok := true
				for i := at; i < at+n; i++ {
					ok = ok && !used[i]
				}
				if ok {
					return true
				}
			}
			return false
		}
		type run struct{ at, n uint32 }
		var runs []run
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(runs) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(runs)-1).Draw(t, "which")
				x.release(runs[i].at, runs[i].n)
				for k := runs[i].at; k < runs[i].at+runs[i].n; k++ {
					delete(used, k)
				}
				runs = append(runs[:i], runs[i+1:]...)
				continue
			}
			n := rapid.Uint32Range(1, 80).Draw(t, "n")
			align := uint32(1) << rapid.IntRange(0, 7).Draw(t, "align")
			at, err := x.alloc(n, align)
			require.Equal(t, fits(n, align), err == nil, "%v", err)
			if err != nil {
				require.ErrorIs(t, err, ErrExhausted)
				continue
			}
			require.Zero(t, at%align)
			require.GreaterOrEqual(t, at, first)
			require.LessOrEqual(t, at+n, limit)
			for i := at; i < at+n; i++ {
				require.False(t, used[i], "number %d is in use", i)
				used[i] = true
			}
			runs = append(runs, run{at, n})
		}
		require.EqualValues(t, limit-first, int(x.free)+len(used))
	})
}

func TestIndexesOrder(t *testing.T) {
	x := newIndexes("numbers", 8, 12)
	for _, want := range []uint32{8, 9, 10} {
		n, err := x.alloc(1, 1)
		require.NoError(t, err)
		assert.Equal(t, want, n)
	}
	x.release(9, 1)
	n, err := x.alloc(1, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 11, n, "a number is not used again soon")
	x.release(3, 1)
	x.release(11, 5)
	n, err = x.alloc(1, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 9, n)
	for _, a := range [][2]uint32{{0, 1}, {1, 0}, {1, 3}} {
		_, err = x.alloc(a[0], a[1])
		assert.ErrorIs(t, err, ErrInvalid)
	}
}

// TestBuddy allocates and releases blocks at random: they do not overlap, and the whole is one block in the end.
func TestBuddy(t *testing.T) {
	const order = 10
	b := newBuddy(order)
	r := rand.New(rand.NewPCG(1, 2))
	type block struct {
		at    uint32
		order int
	}
	var blocks []block
	used := make([]bool, 1<<order)
	mark := func(x block, v bool) {
		for i := x.at; i < x.at+1<<x.order; i++ {
			require.NotEqual(t, v, used[i])
			used[i] = v
		}
	}
	for range 5000 {
		if len(blocks) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(blocks))
			mark(blocks[i], false)
			b.release(blocks[i].at, blocks[i].order)
			blocks = append(blocks[:i], blocks[i+1:]...)
			continue
		}
		x := block{order: r.IntN(6)}
		var ok bool
		if x.at, ok = b.alloc(x.order); ok {
			require.Zero(t, x.at%(1<<x.order))
			mark(x, true)
			blocks = append(blocks, x)
		}
	}
	for _, x := range blocks {
		b.release(x.at, x.order)
	}
	at, ok := b.alloc(order)
	assert.True(t, ok)
	assert.Zero(t, at)
	_, ok = b.alloc(order + 1)
	assert.False(t, ok)
}

// TestArrange checks that the tables of the ICM do not overlap, and that each is at a multiple of its size.
func TestArrange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m icm
		for i := range m.tables {
			m.tables[i].entry = 1 << rapid.IntRange(3, 10).Draw(t, "entry")
			m.tables[i].count = rapid.Uint64Range(1, 1<<24).Draw(t, "count")
		}
		require.NoError(t, m.arrange(1<<52))
		for i := range m.tables {
			a := &m.tables[i]
			require.Zero(t, a.base%32, "INIT_HCA takes bases in units of 32 bytes")
			require.LessOrEqual(t, a.base+a.count*a.entry, m.size)
			for k := range i {
				b := &m.tables[k]
				apart := a.base >= b.base+b.count*b.entry || b.base >= a.base+a.count*a.entry
				require.True(t, apart, "tables %d and %d", i, k)
			}
		}
		require.ErrorContains(t, m.arrange(m.size-1), "smaller Profile")
	})
}
