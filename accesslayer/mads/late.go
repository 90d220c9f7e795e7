package mads

import (
	"time"

	"ciddk/clock"
)

// A timer of this package does not count a timeout while the response waits in the CQ or in the port's socket, or while
// the pump handles it.

// lateness is the state of a timer whose deadline has passed.
type lateness struct {
	at      time.Duration // the deadline that is deferred; 0: none
	until   time.Duration // when the deadline counts in any case
	settled bool          // the pump has caught up since
}

// graceFactor bounds how long a timeout is deferred if the pump does not catch up, in timeouts.
const graceFactor = 3

// isLate reports whether the deadline at, which has passed, counts. If it does not count yet, the timer's Fire is
// called again when the pump has handled the datagrams that had arrived, and at the latest after the grace time. e.mu
// is held.
func (e *endpoint) isLate(l *lateness, timer *clock.Deadline, at, timeout time.Duration) bool {
	m := e.p.m
	now := m.al.Clock().Elapsed()
	switch {
	case e.pump == nil || l.at == at && (l.settled || now >= l.until):
		*l = lateness{}
		m.wheel.Cancel(timer)
		return true
	case l.at != at:
		*l = lateness{at: at, until: now + graceFactor*timeout}
		e.pump.CatchUp(func() {
			e.mu.Lock()
			mine := l.at == at
			if mine {
				l.settled = true
			}
			e.mu.Unlock()
			if mine {
				timer.Fire()
			}
		})
	}
	m.wheel.Set(timer, l.until)
	return false
}

// CatchUp implements Backlog.
func (a *agent) CatchUp(f func()) bool {
	e := a.e
	e.mu.Lock()
	pump := e.pump
	e.mu.Unlock()
	if pump == nil || a.closing.Load() {
		return false
	}
	pump.CatchUp(func() {
		a.calls.Lock()
		defer a.calls.Unlock()
		if !a.closing.Load() {
			f()
		}
	})
	return true
}
