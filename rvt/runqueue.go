package rvt

import (
	"runtime"
	"sync"
	"sync/atomic"

	"ciddk/clock"
)

// A runQueue holds the QPs of a port that have work left after a turn. Each gets one quantum when its turn comes, first
// in, first out. The queue is run by a timer of the clock that is set only while QPs wait, and by consumers that poll
// an empty CQ. While it is tended, a goroutine takes from it again and again. Then a QP that waits alone does not set
// the timer: that would wake a thread for each quantum, which would continue the QP on another processor.
type runQueue struct {
	clock   clock.Clock
	waiting atomic.Int32 // QPs in the queue, for pollers, which look without the lock

	mu          sync.Mutex
	first, last *waiter
	timer       clock.Timer
	armed       bool // the timer is set, or round runs
	tenders     int  // goroutines that take from the queue again and again
	stopped     bool
}

// waiter is a QP's place in a run queue.
type waiter struct {
	owner  turnTaker
	queued atomic.Bool // in a run queue
	due    atomic.Bool // a deadline of the QP has passed
	behind *waiter     // the next in the queue, with the queue's lock
}

// turnTaker is a QP as a run queue uses it.
type turnTaker interface {
	// takeTurn runs the QP's engine for one quantum. The queue holds no lock.
	takeTurn()
}

// add appends w, whose queued flag the caller has set.
func (u *runQueue) add(w *waiter) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		w.queued.Store(false)
		return
	}
	if u.last == nil {
		u.first = w
	} else {
		u.last.behind = w
	}
	u.last = w
	u.waiting.Add(1)
	if u.needsTimer() {
		u.arm()
	}
}

// needsTimer reports whether the timer is to be set. A tender leaves deadlines to it, and two QPs that wait are worth a
// second goroutine. The caller holds mu.
func (u *runQueue) needsTimer() bool {
	return u.first != nil && (u.tenders == 0 || u.first != u.last || u.first.due.Load())
}

// arm sets the timer. The caller holds mu.
func (u *runQueue) arm() {
	switch {
	case u.armed:
	case u.timer == nil:
		u.timer = u.clock.AfterFunc(0, u.round)
	default:
		u.timer.Reset(0)
	}
	u.armed = true
}

// tend reports that a goroutine takes from the queue again and again from now on (by 1), or no longer (by -1).
func (u *runQueue) tend(by int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tenders += by
	if u.needsTimer() {
		u.arm()
	}
}

// take removes and returns the first in the queue, or nil. With polled, it is not removed if a deadline of it has
// passed: acting on a deadline may take long, and deliver packets to other QPs.
func (u *runQueue) take(polled bool) *waiter {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.first
	if w == nil {
		return nil
	}
	if polled && w.due.Load() {
		u.arm() // the deadline may have passed after add
		return nil
	}
	if u.first = w.behind; u.first == nil {
		u.last = nil
	}
	w.behind = nil
	u.waiting.Add(-1)
	return w
}

// round runs a turn of each waiting QP, and sets the timer again if any wait then. It yields between turns: many
// QPs that wait would otherwise keep a processor for 10 ms, after which the runtime preempts a goroutine.
func (u *runQueue) round() {
	for range u.waiting.Load() {
		if !u.one(false) {
			break
		}
		runtime.Gosched()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.armed = false
	if u.needsTimer() {
		u.arm()
	}
}

// one runs a turn of the first waiting QP, and reports whether there was one.
func (u *runQueue) one(polled bool) bool {
	w := u.take(polled)
	if w == nil {
		return false
	}
	w.queued.Store(false)
	w.owner.takeTurn()
	return true
}

// stop empties the queue. No QP can enter it afterwards. A turn may be under way.
func (u *runQueue) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	for w := u.first; w != nil; {
		w.queued.Store(false)
		w, w.behind = w.behind, nil
	}
	u.first, u.last = nil, nil
	u.waiting.Store(0)
	if u.timer != nil {
		u.timer.Stop()
	}
}
