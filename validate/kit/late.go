package kit

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"ciddk/validate"
)

// Late detects callbacks that begin, or are still running, after the Destroy of their object has returned. [SAS-2.1-30]
type Late struct {
	t         *validate.T
	first     chan struct{} // has a token after the first late callback
	numInTime atomic.Int64
	numLate   atomic.Int64
}

// NewLate returns a Late for any number of objects.
func NewLate(t *validate.T) *Late { return &Late{t: t, first: make(chan struct{}, 1)} }

// Watch returns a Watch for one object.
func (l *Late) Watch() *Watch { return &Watch{l: l} }

// Watch is an object whose callbacks are watched. The object's callback calls Callback. The case calls Destroyed when
// Destroy has returned.
type Watch struct {
	l         *Late
	destroyed atomic.Bool
}

// Callback records a callback. It takes some time, so that a Destroy that does not wait for a running callback is
// detected.
func (w *Watch) Callback() {
	for range 50 {
		runtime.Gosched()
	}
	if !w.destroyed.Load() {
		w.l.numInTime.Add(1)
		return
	}
	w.l.numLate.Add(1)
	select {
	case w.l.first <- struct{}{}:
	default:
	}
}

// Destroyed records that Destroy has returned.
func (w *Watch) Destroyed() { w.destroyed.Store(true) }

// Silent waits for d, and fails the case if a callback is late. where names what was destroyed.
func (l *Late) Silent(where string, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.first:
		l.t.Fail(validate.Failure{
			Where: where, Expected: "no callback that begins or is still running after Destroy has returned",
			Got: fmt.Sprintf("%d, and %d that ended before", l.numLate.Load(), l.numInTime.Load()),
		})
	case <-timer.C:
	}
}
