package rvt

import (
	"sync"
	"time"
)

// wheel is the HCA's one set of timers. QPs set a timer far more often than one fires, so setting is lazy: a timer whose deadline
// moved later stays where it is, fires early, finds nothing due and sets itself again. A quiet HCA has no timer at all.
type wheel struct {
	mu      sync.Mutex
	clock   Clock
	heap    []*timer
	next    Timer
	at      time.Duration // when next fires; 0: not set
	stopped bool
}

// timer is one deadline. fire runs on the clock's goroutine without locks of the wheel.
type timer struct {
	fire func()
	at   time.Duration
	pos  int // in the heap, from 1; 0: not in it
}

func (w *wheel) init(c Clock) { w.clock = c }

// set makes t fire at at, or earlier if it was set to an earlier time.
func (w *wheel) set(t *timer, at time.Duration) {
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

// cancel takes t out. Its fire may be running, or about to.
func (w *wheel) cancel(t *timer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(t)
}

func (w *wheel) stop() {
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

func (w *wheel) arm() {
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

func (w *wheel) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = 0
	now := w.clock.Now()
	for len(w.heap) > 0 && w.heap[0].at <= now {
		t := w.heap[0]
		w.remove(t)
		w.mu.Unlock()
		t.fire()
		w.mu.Lock()
	}
	w.arm()
}

func (w *wheel) remove(t *timer) {
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

func (w *wheel) swap(i, j int) {
	h := w.heap
	h[i-1], h[j-1] = h[j-1], h[i-1]
	h[i-1].pos, h[j-1].pos = i, j
}

func (w *wheel) up(i int) {
	for i > 1 && w.heap[i-1].at < w.heap[i/2-1].at {
		w.swap(i, i/2)
		i /= 2
	}
}

func (w *wheel) down(i int) {
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
