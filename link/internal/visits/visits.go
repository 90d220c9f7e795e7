// Package visits counts deliveries in progress.
package visits

import "sync/atomic"

// A Counter counts the deliveries to a port that other goroutines make, so that Close can wait for them. A delivery may
// lead to further ones to the same port, on the same stack, which a lock would not permit. The zero value is open.
type Counter struct {
	closed atomic.Bool
	now    atomic.Int64
	idle   atomic.Pointer[chan struct{}] // of Close; gets a token when the last delivery ends
}

// Enter begins a delivery. If it returns false, the port is closed. Otherwise the caller calls Leave.
func (v *Counter) Enter() bool {
	v.now.Add(1)
	if v.closed.Load() {
		v.Leave()
		return false
	}
	return true
}

// Leave ends a delivery.
func (v *Counter) Leave() {
	if v.now.Add(-1) == 0 && v.closed.Load() {
		if c := v.idle.Load(); c != nil {
			select {
			case *c <- struct{}{}:
			default:
			}
		}
	}
}

// IsClosed reports whether Close was called.
func (v *Counter) IsClosed() bool { return v.closed.Load() }

// Close refuses further deliveries. It reports whether it is the first call.
func (v *Counter) Close() (first bool) {
	c := make(chan struct{}, 1)
	v.idle.CompareAndSwap(nil, &c)
	return !v.closed.Swap(true)
}

// Wait returns when no delivery is in progress, after Close.
func (v *Counter) Wait() {
	c := *v.idle.Load()
	for v.now.Load() > 0 {
		<-c
	}
}
