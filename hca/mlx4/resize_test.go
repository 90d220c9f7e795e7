package mlx4_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// TestResizeRounds resizes a CQ at each index of its first rounds, and goes around the new one several times. It has no
// entry but those of requests.
func TestResizeRounds(t *testing.T) {
	o := newSingle(t, true)
	poll := func() int {
		n, err := o.send.Poll(make([]ci.WC, 4))
		require.NoError(t, err)
		return n
	}
	write := func() {
		n, err := o.writes(1)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n = 0
		for end := time.Now().Add(time.Minute); n == 0 && time.Now().Before(end); n = poll() {
		}
		require.Equal(t, 1, n)
	}
	for i := range 40 {
		size, err := o.send.Resize(ci.CQResize{Size: []int{32, 8, 64, 16}[i%4]})
		require.NoError(t, err)
		for range i%3*size + i%size + 1 {
			require.Zero(t, poll(), "resize %d", i)
			write()
		}
		require.Zero(t, poll(), "resize %d", i)
	}
	o.close(t)
}
