package rvt

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSlice checks that slices use up a quantum and nothing beyond it.
func TestSlice(t *testing.T) {
	t.Parallel()
	b := newQuantum()
	require.Equal(t, b, b.slice(false))
	n := 0
	for ; !b.isSpent(); n++ {
		s := b.slice(true)
		require.LessOrEqual(t, s.bytes, sliceBytes)
		require.Equal(t, b.packets, s.packets)
		b.spend(1, uint32(s.bytes))
	}
	require.Equal(t, turnBytes/sliceBytes, n)
	require.Less(t, n+1, serveTurns, "one more turn completes what the last slice has sent")
}
