package cm

import (
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/clock"
)

// lateness is what a timer has found out about the deadline that has passed.
type lateness struct {
	at      time.Duration // the deadline that is put off; 0: none
	until   time.Duration // when it counts in any case
	settled bool          // the port has caught up since
}

// graceFactor bounds how long a timeout is put off by a port that does not catch up, in intervals between copies of a message.
const graceFactor = 3

// isLate reports whether the deadline at, which has passed, counts: a message that answers ours may have arrived and not been delivered. If it
// does not count yet, the timer's Fire is called again when the port has caught up, at the latest after the grace time. lock guards l, and
// is held.
func (p *port) isLate(l *lateness, lock sync.Locker, timer *clock.Deadline, at, interval time.Duration) bool {
	now := p.m.clock.Now()
	if l.at != at {
		*l = lateness{at: at, until: now + graceFactor*interval}
		b, ok := p.agent.(mads.Backlog)
		if !ok || !b.CatchUp(func() {
			lock.Lock()
			mine := l.at == at
			if mine {
				l.settled = true
			}
			lock.Unlock()
			if mine {
				timer.Fire()
			}
		}) {
			l.settled = true
		}
	}
	if l.settled || now >= l.until {
		*l = lateness{}
		return true
	}
	p.m.wheel.Set(timer, l.until)
	return false
}
