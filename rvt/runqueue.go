package rvt

import (
	"runtime"
	"sync"
	"sync/atomic"

	"ciddk/clock"
)

// A runQueue holds the QPs of a port that have work left after a turn. Each gets one quantum when its turn comes, first in, first out. The
// queue is run by a timer of the clock that is set only while QPs wait, and by consumers that poll an empty CQ.
type runQueue struct {
	clock   clock.Clock
	waiting atomic.Int32 // QPs in the queue, for pollers, which look without the lock

	mu          sync.Mutex
	first, last *QP
	timer       clock.Timer
	armed       bool // the timer is set, or round runs
	stopped     bool
}

// add appends q, which is in no queue.
func (u *runQueue) add(q *QP) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		q.queued.Store(false)
		return
	}
	if u.last == nil {
		u.first = q
	} else {
		u.last.behind = q
	}
	u.last = q
	u.waiting.Add(1)
	switch {
	case u.armed:
	case u.timer == nil:
		u.timer = u.clock.AfterFunc(0, u.round)
	default:
		u.timer.Reset(0)
	}
	u.armed = true
}

// take removes the first QP; nil if there is none. Consumers that poll leave it there if a deadline of it has passed: acting on that may take
// long, and deliver packets to other QPs.
func (u *runQueue) take(polled bool) *QP {
	u.mu.Lock()
	defer u.mu.Unlock()
	q := u.first
	if q == nil || polled && q.due.Load() {
		return nil
	}
	if u.first = q.behind; u.first == nil {
		u.last = nil
	}
	q.behind = nil
	u.waiting.Add(-1)
	return q
}

// round gives a turn to each QP that waits, and sets the timer again if any wait then. It yields between turns: many QPs that wait would
// otherwise keep a processor for 10 ms, after which the runtime preempts a goroutine.
func (u *runQueue) round() {
	for range u.waiting.Load() {
		if !u.one(false) {
			break
		}
		runtime.Gosched()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.armed = u.first != nil; u.armed {
		u.timer.Reset(0)
	}
}

// one gives a turn to the first QP that waits; false if there is none.
func (u *runQueue) one(polled bool) bool {
	q := u.take(polled)
	if q == nil {
		return false
	}
	q.queued.Store(false)
	q.takeTurn()
	return true
}

// stop empties the queue, and lets no QP enter it from now on. A turn may be under way.
func (u *runQueue) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	for q := u.first; q != nil; {
		q.queued.Store(false)
		q, q.behind = q.behind, nil
	}
	u.first, u.last = nil, nil
	u.waiting.Store(0)
	if u.timer != nil {
		u.timer.Stop()
	}
}
