package accesslayer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// hide puts completions where only a poll finds them, without a callback, like completions that wait in the socket of a
// port.
func (q *fakeCQ) hide(wcs ...ci.WC) {
	q.qmu.Lock()
	defer q.qmu.Unlock()
	q.queue = append(q.queue, wcs...)
}

// TestPumpCatchUp checks that f is called after the completions that were in the CQ, between two calls of Handle, also
// by a pump that sleeps.
func TestPumpCatchUp(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			drv, _ := ci.As[*fakeCQ](r.cq)
			handled, handling := 0, false // without a lock, so that the race detector reports overlapping calls
			pump := must(r.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Batch: 4, Handle: func(wc []ci.WC) {
				handling = true
				handled += len(wc)
				handling = false
			}}))
			for round := range 100 {
				drv.hide(make([]ci.WC, 10)...)
				ends := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
				for _, end := range ends {
					pump.CatchUp(func() {
						assert.False(t, handling)
						assert.Equal(t, 10*(round+1), handled)
						close(end)
					})
				}
				wait(t, ends[0], "the call")
				wait(t, ends[1], "the second call")
			}
			require.NoError(t, pump.Destroy())
			pump.CatchUp(func() { t.Error("called by a pump that has ended") })
		})
	}
}

// TestPumpCatchUpFlood checks that a CQ that never becomes empty does not delay the call forever.
func TestPumpCatchUpFlood(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			drv, _ := ci.As[*fakeCQ](r.cq)
			handled := 0
			pump := must(r.cq.NewPump(accesslayer.PumpConfig{Mode: mode, Handle: func(wc []ci.WC) {
				handled += len(wc)
				drv.hide(wc...)
			}}))
			drv.complete(make([]ci.WC, 200)...)
			for range 10 {
				before, after := make(chan int, 1), make(chan int, 1)
				pump.CatchUp(func() {
					before <- handled
					pump.CatchUp(func() { after <- handled })
				})
				assert.Less(t, <-before, <-after)
			}
			require.NoError(t, pump.Destroy())
		})
	}
}
