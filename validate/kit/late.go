package kit

import (
	"runtime"
	"sync/atomic"
)

// Late watches the callbacks of one object for such that begin, or still run, after its Destroy has returned. Callback is called by the
// callback, Gone when Destroy has returned. [SAS-2.1-30]
type Late struct {
	gone atomic.Bool
	late atomic.Int64
	all  atomic.Int64
}

// Callback takes a little time, so that a Destroy that does not wait for a callback in progress is seen.
func (l *Late) Callback() {
	l.all.Add(1)
	for range 50 {
		runtime.Gosched()
	}
	if l.gone.Load() {
		l.late.Add(1)
	}
}

// Gone marks that Destroy has returned.
func (l *Late) Gone() { l.gone.Store(true) }

// Count gives how many callbacks there were that ended before Gone and after it.
func (l *Late) Count() (in, late int64) { n := l.late.Load(); return l.all.Load() - n, n }
