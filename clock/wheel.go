package clock

import (
	"sync"
	"time"
)

// Wheel is a set of deadlines that share one timer, for owners of many deadlines, such as the QPs of an HCA or the
// connections of a manager. Deadlines are set far more often than they expire, so Set is lazy: it does not move a
// deadline to a later time. Such a deadline fires early, and its owner sets it again. Without deadlines, the wheel has
// no timer set. Init must be called first. All other methods may be called concurrently.
type Wheel struct {
	mu      sync.Mutex
	clock   Clock
	heap    []*Deadline
	next    Timer
	at      time.Duration // when next expires, or 0
	stopped bool
}

// Deadline is a deadline in a Wheel. The owner sets Fire once, before it sets the deadline.
type Deadline struct {
	// Fire runs on a goroutine of the clock, without locks of the wheel held. It may set this deadline and others.
	// Other deadlines wait until it returns, so it should be short.
	Fire func()
	at   time.Duration
	pos  int // index in the heap from 1, or 0
}

// Init sets the clock.
func (w *Wheel) Init(c Clock) { w.clock = c }

// Set sets t to at. If t is set to an earlier time, it keeps that time.
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

// Cancel removes t. It does not wait for a call of t.Fire that has begun or is about to begin.
func (w *Wheel) Cancel(t *Deadline) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(t)
}

// Stop removes all deadlines, and makes Set do nothing from now on. It does not wait for calls of Fire. It is
// idempotent.
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

// arm sets the timer to the first deadline. w.mu is held.
func (w *Wheel) arm() {
	if len(w.heap) == 0 {
		return
	}
	at := w.heap[0].at
	if w.at != 0 && w.at <= at {
		return
	}
	w.at = at
	d := max(at-w.clock.Elapsed(), 0)
	if w.next == nil {
		w.next = w.clock.AfterFunc(d, w.expire)
	} else {
		w.next.Reset(d)
	}
}

// expire fires the deadlines that have passed.
func (w *Wheel) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
	now := w.clock.Elapsed()
	for len(w.heap) > 0 && w.heap[0].at <= now {
		t := w.heap[0]
		w.remove(t)
		w.mu.Unlock()
		t.Fire()
		w.mu.Lock()
	}
	w.arm()
}

// remove takes t out of the heap. w.mu is held.
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

// up moves the deadline at index i towards the root of the heap.
func (w *Wheel) up(i int) {
	for i > 1 && w.heap[i-1].at < w.heap[i/2-1].at {
		w.swap(i, i/2)
		i /= 2
	}
}

// down moves the deadline at index i away from the root of the heap.
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
