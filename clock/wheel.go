package clock

import (
	"sync"
	"time"
)

// Wheel is one set of timers on a clock, for whoever has many: the QPs of an HCA, the connections of a manager. Deadlines are set far
// more often than one fires, so setting is lazy: a deadline that moved later stays where it is, fires early, and its owner, who finds
// nothing due, sets it again. With no deadline set, there is no timer at all. Init comes before everything else; all methods may be
// called concurrently.
type Wheel struct {
	mu      sync.Mutex
	clock   Clock
	heap    []*Deadline
	next    Timer
	at      time.Duration // when next fires; 0: not set
	stopped bool
}

// Deadline is one timer of a Wheel. Its owner sets Fire once, before the deadline is set.
type Deadline struct {
	// Fire runs on a goroutine of the clock, without locks of the wheel; it may set this deadline and others. It should be short:
	// other deadlines wait for it.
	Fire func()
	at   time.Duration
	pos  int // in the heap, from 1; 0: not in it
}

// Init gives the wheel its clock.
func (w *Wheel) Init(c Clock) { w.clock = c }

// Set makes t fire at at, or earlier if it was set to an earlier time.
func (w *Wheel) Set(t *Deadline, at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	switch {
	case t.pos == 0:
		t.at = at
		w.heap = append(w.heap, t)
		t.pos = len(w.heap)
		w.up(t.pos)
	case at < t.at:
		t.at = at
		w.up(t.pos)
	default:
		return
	}
	w.arm()
}

// Cancel takes t out. Its Fire may be running, or about to.
func (w *Wheel) Cancel(t *Deadline) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(t)
}

// Stop takes out all deadlines, and lets none be set from now on. A Fire may be running. It is idempotent.
func (w *Wheel) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, t := range w.heap {
		t.pos = 0
	}
	w.heap = nil
	if w.next != nil {
		w.next.Stop()
	}
}

func (w *Wheel) arm() {
	if len(w.heap) == 0 {
		return
	}
	at := w.heap[0].at
	if w.at != 0 && w.at <= at {
		return
	}
	w.at = at
	d := max(at-w.clock.Now(), 0)
	if w.next == nil {
		w.next = w.clock.AfterFunc(d, w.expire)
	} else {
		w.next.Reset(d)
	}
}

func (w *Wheel) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
	now := w.clock.Now()
	for len(w.heap) > 0 && w.heap[0].at <= now {
		t := w.heap[0]
		w.remove(t)
		w.mu.Unlock()
		t.Fire()
		w.mu.Lock()
	}
	w.arm()
}

func (w *Wheel) remove(t *Deadline) {
	if t.pos == 0 {
		return
	}
	i, last := t.pos, len(w.heap)
	w.swap(i, last)
	w.heap[last-1] = nil
	w.heap = w.heap[:last-1]
	t.pos = 0
	if i < last {
		w.up(i)
		w.down(i)
	}
}

func (w *Wheel) swap(i, j int) {
	h := w.heap
	h[i-1], h[j-1] = h[j-1], h[i-1]
	h[i-1].pos, h[j-1].pos = i, j
}

func (w *Wheel) up(i int) {
	for i > 1 && w.heap[i-1].at < w.heap[i/2-1].at {
		w.swap(i, i/2)
		i /= 2
	}
}

func (w *Wheel) down(i int) {
	for {
		c := 2 * i
		if c > len(w.heap) {
			return
		}
		if c < len(w.heap) && w.heap[c].at < w.heap[c-1].at {
			c++
		}
		if w.heap[i-1].at <= w.heap[c-1].at {
			return
		}
		w.swap(i, c)
		i = c
	}
}
