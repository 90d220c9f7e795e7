package chaos

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// watchdog checks that actors make progress, and measures how late timers run.
type watchdog struct {
	now   func() time.Duration
	stall time.Duration

	mu     sync.Mutex
	actors map[*actor]bool

	late atomic.Int64 // time at which a timer last ran too late, in ns, or 0
}

const (
	watchPeriod = 100 * time.Millisecond
	// tooLate is a delay of a timer that indicates an overloaded machine.
	tooLate = 250 * time.Millisecond
	// afterwards is the time after a delay during which it explains timeouts. It is longer than all retries of a
	// connection.
	afterwards = 15 * time.Second
)

func newWatchdog(now func() time.Duration, stall time.Duration) *watchdog {
	return &watchdog{now: now, stall: stall, actors: map[*actor]bool{}}
}

func (d *watchdog) add(a *actor) {
	a.beat()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.actors[a] = true
}

func (d *watchdog) remove(a *actor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.actors, a)
}

// run waits until an actor makes no progress, and calls hung with its name. It returns after that, or when stop is
// closed.
func (d *watchdog) run(stop <-chan struct{}, hung func(name string)) {
	t := time.NewTicker(watchPeriod)
	defer t.Stop()
	last := d.now()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		now := d.now()
		if now-last > tooLate {
			d.late.Store(int64(now))
		}
		last = now
		if name := d.stuck(now); name != "" {
			hung(name)
			return
		}
	}
}

func (d *watchdog) stuck(now time.Duration) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := range d.actors {
		if now-time.Duration(a.last.Load()) > d.stall {
			return a.name
		}
	}
	return ""
}

// starved reports whether the machine was recently too busy for timeouts to be meaningful.
func (d *watchdog) starved() bool {
	late := d.late.Load()
	return late != 0 && d.now()-time.Duration(late) < afterwards
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	for n := 1 << 20; ; n *= 2 {
		b := make([]byte, n)
		if k := runtime.Stack(b, true); k < n || n >= 64<<20 {
			return bytes.TrimSpace(b[:k])
		}
	}
}
