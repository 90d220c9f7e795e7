package udp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/internal/linktest"
	"ciddk/internal/testenv"
	"ciddk/internal/train"
	"ciddk/rvt"
)

// TestBarrier checks that a mark is reached when a barrier that was sent after it has arrived, and that a lost barrier
// is sent again.
func TestBarrier(t *testing.T) {
	var b barrier
	mark, ask, done := b.want(0, 0)
	require.Equal(t, []any{uint64(1), uint64(1), false}, []any{mark, ask, done})
	other, ask, done := b.want(0, 0)
	require.Equal(t, []any{uint64(2), uint64(0), false}, []any{other, ask, done},
		"the barrier under way does not do for a later mark")
	_, ask, done = b.want(1, barrierPatience-1)
	require.Equal(t, []any{uint64(0), false}, []any{ask, done})
	_, ask, _ = b.want(1, barrierPatience)
	require.EqualValues(t, 1, ask, "lost, so it is sent again")
	require.Zero(t, b.came(7, 0), "forged")
	require.EqualValues(t, 2, b.came(1, 0), "somebody waits for the next")
	require.Zero(t, b.came(1, 0), "it came twice")
	_, _, done = b.want(1, 0)
	require.True(t, done)
	_, _, done = b.want(2, 0)
	require.False(t, done)
	require.Zero(t, b.came(2, 0))
	_, ask, done = b.want(2, 0)
	require.Equal(t, []any{uint64(0), true}, []any{ask, done})
}

// TestPortableCatchUp checks that the port has not caught up while the goroutine of the portable socket is blocked, and
// that afterwards everything that had arrived has been delivered.
func TestPortableCatchUp(t *testing.T) {
	b, r := openTest(t, Config{Portable: true})
	a, _ := openTest(t, Config{Portable: true})
	stuck, release := make(chan struct{}), make(chan struct{})
	first := true
	r.Each = func() {
		if first {
			first = false
			close(stuck)
			<-release
		}
	}
	trains := linktest.Trains(routeTo(t, a, b))[:1]
	a.Send(trains)
	<-stuck
	for range 20 {
		a.Send(trains)
	}
	mark, done := b.CatchUp(0)
	require.False(t, done)
	again, done := b.CatchUp(mark)
	require.False(t, done)
	require.Equal(t, mark, again)
	close(release)
	require.Eventually(t, func() bool { _, done := b.CatchUp(mark); return done }, testenv.Patience, time.Millisecond)
	require.Equal(t, 21*train.Count(trains), train.Count(r.Taken()))
	require.Zero(t, r.Counted(rvt.DropMalformed))
}
