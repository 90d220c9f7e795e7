package udp

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/rvt"
)

// refiller is a Receiver that sends the next packet within each Deliver, so that the socket it receives from is never
// empty.
type refiller struct {
	deliveries atomic.Int64
	stopped    atomic.Bool
	refill     func()
}

func (r *refiller) Deliver([]rvt.Packet, bool, bool) {
	r.deliveries.Add(1)
	if !r.stopped.Load() {
		r.refill()
	}
}

func (r *refiller) FlushAcks()             {}
func (r *refiller) PortEvent(ci.EventType) {}
func (r *refiller) Count(rvt.Counter, int) {}

// TestReceiverYields checks that a receiver whose socket never becomes empty leaves the processor to other goroutines.
// On one processor, a goroutine that yields continues after a few deliveries; if the receiver did not yield, thousands
// of them would pass in the 10 ms after which the runtime preempts it.
func TestReceiverYields(t *testing.T) {
	const (
		deliveries    = 1000
		maxDeliveries = 100 // between two turns of the other goroutine
	)
	for _, portable := range []bool{false, true} {
		t.Run(map[bool]string{false: "fast", true: "portable"}[portable], func(t *testing.T) {
			p, err := New(Config{Addr: linktest.Addr(), Portable: portable})
			require.NoError(t, err)
			b := p
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			a, _ := openTest(t, Config{})
			train := linktest.Trains(routeTo(t, a, b))[:1]
			r := &refiller{refill: func() { a.Send(train) }}
			t.Cleanup(func() { r.stopped.Store(true) })
			require.NoError(t, linktest.Start(b, r))
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			a.Send(train)
			deadline, most := time.Now().Add(10*time.Second), int64(0)
			for r.deliveries.Load() < deliveries && time.Now().Before(deadline) {
				before := r.deliveries.Load()
				runtime.Gosched()
				most = max(most, r.deliveries.Load()-before)
			}
			require.GreaterOrEqual(t, r.deliveries.Load(), int64(deliveries), "the receiver did not run")
			require.LessOrEqual(t, most, int64(maxDeliveries))
		})
	}
}
