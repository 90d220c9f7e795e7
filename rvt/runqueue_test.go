package rvt

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRoundYields checks that a round of many waiting QPs leaves the processor to other goroutines between turns. The
// turns of this test do nothing, so that all of them would pass before the runtime preempts a round that did not yield.
func TestRoundYields(t *testing.T) {
	const (
		qps      = 10000
		maxTurns = 100 // between two turns of the other goroutine
	)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	u := &runQueue{clock: newClock()}
	for range qps {
		q := new(QP)
		q.destroyed.Store(true)
		q.wait.owner = q
		q.wait.queued.Store(true)
		u.add(&q.wait)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.round()
	}()
	most := int32(0)
	for u.waiting.Load() > 0 {
		before := u.waiting.Load()
		runtime.Gosched()
		most = max(most, before-u.waiting.Load())
	}
	<-done
	require.LessOrEqual(t, most, int32(maxTurns))
	u.stop()
}
