package cm

import (
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/clock"
)

// A gracePeriod defers a timeout while datagrams that arrived before the deadline may not have been delivered.
type gracePeriod struct {
	deadline time.Duration // the deferred deadline; 0 if none
	end      time.Duration // the timeout takes effect at this time in any case
	caughtUp bool          // the port has delivered what arrived before the deadline
}

// graceFactor is the length of a grace period, in intervals between copies of a message.
const graceFactor = 3

// isExpired reports whether a timeout takes effect whose deadline has passed. It does not if an answer may have arrived
// and not been delivered. Then the timer's Fire is called again when the port has caught up, or at the end of the grace
// period. lock guards g. The caller holds it.
func (p *port) isExpired(g *gracePeriod, lock sync.Locker, timer *clock.Deadline, deadline,
	interval time.Duration) bool {
	now := p.m.clock.Elapsed()
	if g.deadline != deadline {
		*g = gracePeriod{deadline: deadline, end: now + graceFactor*interval}
		b, ok := p.agent.(mads.Backlog)
		if !ok || !b.CatchUp(func() { p.endGrace(g, lock, timer, deadline) }) {
			g.caughtUp = true
		}
	}
	if g.caughtUp || now >= g.end {
		*g = gracePeriod{}
		return true
	}
	p.m.wheel.Set(timer, g.end)
	return false
}

// endGrace ends the grace period of a deadline when the port has caught up.
func (p *port) endGrace(g *gracePeriod, lock sync.Locker, timer *clock.Deadline, deadline time.Duration) {
	lock.Lock()
	isCurrent := g.deadline == deadline
	if isCurrent {
		g.caughtUp = true
	}
	lock.Unlock()
	if isCurrent {
		timer.Fire()
	}
}
