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

// TestResizeFull resizes a CQ while as many completions arrive as it was created for. The adapter has room for the
// entry that ends the ring.
func TestResizeFull(t *testing.T) {
	o := newSingle(t, true)
	type posted struct {
		n   int
		err error
	}
	for i := range 200 {
		sizes := [2]int{8, 20}
		size, err := o.send.Resize(ci.CQResize{Size: sizes[i%2]})
		require.NoError(t, err)
		require.GreaterOrEqual(t, size, sizes[i%2])
		done := make(chan posted)
		go func() {
			n, err := o.writes(8)
			done <- posted{n, err}
		}()
		size, err = o.send.Resize(ci.CQResize{Size: sizes[1-i%2]})
		require.NoError(t, err)
		require.Equal(t, posted{n: 8}, <-done)
		attr, err := o.send.Query()
		require.NoError(t, err)
		require.Equal(t, size, attr.Size)
		wc, polled := make([]ci.WC, 9), 0
		for end := time.Now().Add(time.Minute); polled < 8 && time.Now().Before(end); {
			n, err := o.send.Poll(wc[polled:])
			require.NoError(t, err)
			polled += n
		}
		require.Equal(t, 8, polled, "round %d", i)
		for _, c := range wc[:polled] {
			require.Equal(t, ci.WCSuccess, c.Status, "round %d", i)
		}
	}
	o.close(t)
}

// TestCQSizes creates and resizes CQs of sizes around powers of two: the ring has an entry more than can wait in it.
func TestCQSizes(t *testing.T) {
	o := newSingle(t, true)
	a, err := o.c.Query()
	require.NoError(t, err)
	for _, v := range []struct{ want, granted int }{{1, 1}, {2, 3}, {7, 7}, {8, 15}, {15, 15}, {16, 31}} {
		q, err := o.pd.CreateCQ(ci.CQCreate{Size: v.want})
		require.NoError(t, err)
		attr, err := q.Query()
		require.NoError(t, err)
		require.Equal(t, v.granted, attr.Size)
		size, err := q.Resize(ci.CQResize{Size: 100})
		require.NoError(t, err)
		require.Equal(t, 127, size)
		size, err = q.Resize(ci.CQResize{Size: v.want})
		require.NoError(t, err)
		require.Equal(t, v.granted, size)
		_, err = q.Resize(ci.CQResize{Size: a.MaxCQEs + 1})
		require.Equal(t, ci.InvalidCQSize, ci.StatusOf(err))
		require.NoError(t, q.Destroy())
	}
	_, err = o.pd.CreateCQ(ci.CQCreate{Size: a.MaxCQEs + 1})
	require.Equal(t, ci.InvalidCQSize, ci.StatusOf(err))
	o.close(t)
}
