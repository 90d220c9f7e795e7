package validate

import (
	"sync"
	"time"
)

// A Watchdog calls a function when the machine has run this process for a time without a Reset. Intervals in which the
// process was starved do not count, so that a process which gets no processor is not taken for one that hangs.
type Watchdog struct {
	mu     sync.Mutex
	left   time.Duration
	part   time.Duration // of one interval
	resets int
	once   sync.Once
	quit   chan struct{}
	done   chan struct{} // closed when its goroutine has ended
}

// watchParts is the number of intervals into which the time of a watchdog is divided.
const watchParts = 8

// NewWatchdog starts a watchdog. It calls bite at most once, on a goroutine of its own.
func NewWatchdog(d time.Duration, bite func()) *Watchdog {
	return newWatchdog(d, bite, Conditions.starved)
}

func newWatchdog(d time.Duration, bite func(), isStarved func(Conditions) bool) *Watchdog {
	w := &Watchdog{quit: make(chan struct{}), done: make(chan struct{})}
	w.Reset(d)
	go w.run(bite, isStarved)
	return w
}

// run measures in each interval how late it is itself, and how long the threads wait for a processor. It starts no
// other goroutine, since the certifier counts those that a driver leaves behind.
func (w *Watchdog) run(bite func(), isStarved func(Conditions) bool) {
	defer close(w.done)
	for {
		w.mu.Lock()
		left, part, resets := w.left, w.part, w.resets
		w.mu.Unlock()
		if left <= 0 {
			bite()
			return
		}
		cpu := startCPUMeter(0)
		select {
		case <-w.quit:
			return
		case <-time.After(part):
		}
		elapsed := time.Since(cpu.begin)
		c := Conditions{Stalled: float64(elapsed-part) / float64(elapsed)}
		cpu.read(&c)
		w.mu.Lock()
		if w.resets == resets && !isStarved(c) {
			w.left -= part
		}
		w.mu.Unlock()
	}
}

// Reset begins the time anew, with d.
func (w *Watchdog) Reset(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.part = d, max(d/watchParts, time.Millisecond)
	w.resets++
}

// Stop ends the watchdog, and waits for bite if it runs. It is idempotent.
func (w *Watchdog) Stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}
