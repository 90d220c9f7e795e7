package kit

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"ciddk/validate"
)

// Late finds callbacks that begin, or still run, after the Destroy of their object has returned. [SAS-2.1-30]
type Late struct {
	t     *validate.T
	first chan struct{} // one token at the first late callback
	in    atomic.Int64
	late  atomic.Int64
}

// NewLate makes one for any number of objects.
func NewLate(t *validate.T) *Late { return &Late{t: t, first: make(chan struct{}, 1)} }

// Watch follows one object. Its Callback is called by the object's callback, its Gone when Destroy has returned.
func (l *Late) Watch() *Watch { return &Watch{l: l} }

// Watch is an object whose callbacks are followed.
type Watch struct {
	l    *Late
	gone atomic.Bool
}

// Callback takes a little time, so that a Destroy that does not wait for a callback in progress is seen.
func (w *Watch) Callback() {
	for range 50 {
		runtime.Gosched()
	}
	if !w.gone.Load() {
		w.l.in.Add(1)
		return
	}
	w.l.late.Add(1)
	select {
	case w.l.first <- struct{}{}:
	default:
	}
}

// Gone marks that Destroy has returned.
func (w *Watch) Gone() { w.gone.Store(true) }

// Silent listens for the time d and expects that no callback was late. where says what was destroyed.
func (l *Late) Silent(where string, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.first:
		l.t.Fail(validate.Failure{Where: where, Expected: "no callback that begins or still runs after Destroy has returned",
			Got: fmt.Sprintf("%d, and %d that ended before", l.late.Load(), l.in.Load())})
	case <-timer.C:
	}
}
