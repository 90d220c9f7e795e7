package native

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConns admits connections of two users beyond their limits, and evicts all that have not begun.
func TestConns(t *testing.T) {
	var s Conns
	conns := make([]*Conn, 8)
	for i := range conns {
		a, b, err := Pair()
		require.NoError(t, err)
		defer a.Close()
		defer b.Close()
		conns[i] = a
	}
	admit := func(i, uid int) bool { return s.Admit(conns[i], uid, 5, 3) }
	gone := func(i int) {
		t.Helper()
		require.Error(t, conns[i].Interrupt(), "it is closed")
		require.NotContains(t, slices.Collect(s.All()), conns[i])
	}
	require.False(t, s.Evict())
	s.Remove(conns[0])
	for i, uid := range []int{1, 2, 2, 1, 2} {
		require.True(t, admit(i, uid))
	}
	s.Begin(conns[1])
	s.Begin(conns[1])
	require.True(t, admit(5, 2))
	gone(2) // the oldest of the user that had not begun
	require.True(t, admit(6, 1))
	gone(0) // of two users with as many, the one with the oldest
	s.Begin(conns[4])
	s.Begin(conns[5])
	require.False(t, admit(7, 2), "all of the user have begun")
	require.Equal(t, map[int]int{1: 2, 2: 3}, maps.Clone(s.users))
	require.True(t, s.Evict())
	gone(3)
	require.True(t, s.Evict())
	require.False(t, s.Evict())
	for _, i := range []int{1, 4, 5, 5} {
		s.Remove(conns[i])
	}
	require.Zero(t, s.Len())
	require.Empty(t, s.users)
	require.Zero(t, s.fresh.Len())
}
