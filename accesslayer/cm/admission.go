package cm

import (
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// Requests are admitted as long as there is room. When there is none, a request displaces one from a source with a larger debt, or one whose peer
// has owed the RTU for crowdedAfter. Otherwise it is dropped, or rejected (no resources) when there is no flood. So a flood from a number of
// sources keeps nobody out who sends less than each of them, and one from addresses that are all different keeps a place for crowdedAfter only.

const (
	// crowdedAfter is how long a REP goes unanswered before its request may lose its place to another one: a peer that is there answers within
	// a round trip. With the default of 4096 pending requests, 20,000 a second find a place each.
	crowdedAfter = 200 * time.Millisecond
	// crowdedEarly is the same for a request from a source with a larger debt.
	crowdedEarly = 20 * time.Millisecond
	// crowdedSamples is how many pending requests are compared to find one to displace.
	crowdedSamples = 16
	// crowdedBacklog is the same for the requests that wait at a listener.
	crowdedBacklog = 128
	// floodRate is the requests a second, of all sources together, from which on requests beyond the bounds are dropped instead of
	// rejected: a peer that is there asks again, and finds room then.
	floodRate = 1000
)

// flow counts requests by the second. m.mu guards it.
type flow struct {
	second    time.Duration
	now, last int
}

// add counts a request, and reports whether there is a flood.
func (f *flow) add(now time.Duration) bool {
	if s := now / time.Second; s != f.second {
		f.last = 0
		if s == f.second+1 {
			f.last = f.now
		}
		f.second, f.now = s, 0
	}
	f.now++
	return max(f.now, f.last) > floodRate
}

// noteReplied has a request's peer owe us an RTU from now on; m.mu is held.
func (m *Manager) noteReplied(c *conn) {
	if c.counted {
		c.replied = max(m.clock.Now(), 1)
		m.replied.add(c)
	}
}

// countPending takes note of a request, if there may be another. m.mu is held.
func (m *Manager) countPending(c *conn) bool {
	debt := m.debts.of(&c.from, m.clock.Now())
	if m.perPeer[c.from] >= m.cfg.MaxPendingPeer || len(m.pending) >= m.cfg.MaxPending && !m.makeRoom(debt) {
		return false
	}
	c.counted, c.place = true, len(m.pending)
	m.pending = append(m.pending, c)
	m.perPeer[c.from]++
	return true
}

// settle ends a request's being pending: it is a connection now, or nothing. m.mu is held.
func (m *Manager) settle(c *conn) {
	if !c.counted {
		return
	}
	c.counted = false
	if c.replied != 0 {
		c.replied = 0
		m.replied.remove(c)
	}
	last := len(m.pending) - 1
	m.pending[c.place] = m.pending[last]
	m.pending[c.place].place = c.place
	m.pending[last] = nil
	m.pending = m.pending[:last]
	if m.perPeer[c.from]--; m.perPeer[c.from] == 0 {
		delete(m.perPeer, c.from)
	}
}

// makeRoom displaces a pending request in favour of a new one whose source has the given debt. It reports whether it
// displaced one. The caller holds m.mu.
func (m *Manager) makeRoom(debt uint32) bool {
	now := m.clock.Now()
	var victim *conn
	var largest uint32
	for range crowdedSamples {
		c := m.pending[m.ids.rand.Uint64()%uint64(len(m.pending))]
		if c.replied != 0 && now-c.replied < crowdedEarly {
			continue
		}
		if d := m.debts.of(&c.from, now); outweighs(d, debt) && d > largest {
			victim, largest = c, d
		}
	}
	if victim == nil {
		if c := m.replied.first; c != nil && now-c.replied >= crowdedAfter {
			victim = c
		}
	}
	if victim == nil {
		return false
	}
	m.displace(victim)
	return true
}

// displace ends a pending request; m.mu is held. Its place is free at once, and its timer does the rest: its lock is not ours to take.
func (m *Manager) displace(c *conn) {
	c.crowded = true
	m.settle(c)
	if c.listener != nil {
		c.listener.dequeue(c)
	}
	m.wheel.Set(&c.timer, 1)
}

// mostIndebted returns the waiting request to displace in favour of a new one whose source has the given debt. It is the
// request whose source has the largest debt; of equal debts, the newest. ok is false if no debt is larger than the given
// one. In a long backlog it compares crowdedBacklog requests chosen at random. The caller holds m.mu.
func mostIndebted[R any](m *Manager, waiting []R, source func(R) *mads.Source, debt uint32) (victim R, ok bool) {
	now := m.clock.Now()
	var largest uint32
	for i := range min(len(waiting), crowdedBacklog) {
		r := waiting[i]
		if len(waiting) > crowdedBacklog {
			r = waiting[m.ids.rand.Uint64()%uint64(len(waiting))]
		}
		if d := m.debts.of(source(r), now); outweighs(d, debt) && d >= largest {
			victim, largest, ok = r, d, true
		}
	}
	return victim, ok
}

// makeRoom displaces a request that waits for Accept in favour of a new one whose source has the given debt. It reports
// whether it displaced one. The caller holds m.mu.
func (l *listener) makeRoom(debt uint32) bool {
	c, ok := mostIndebted(l.m, l.conns.requests, func(c *conn) *mads.Source { return &c.from }, debt)
	if ok {
		l.m.displace(c)
	}
	return ok
}

// makeRoomForLookup displaces a SIDR request that waits for AcceptLookup in favour of a new one whose source has the given
// debt. It reports whether it displaced one. The caller holds m.mu.
func (l *listener) makeRoomForLookup(debt uint32) bool {
	r, ok := mostIndebted(l.m, l.lookups.requests, func(r *lookup) *mads.Source { return &r.source }, debt)
	if ok {
		r.forgetLocked()
	}
	return ok
}

// overload is what becomes of a request for which there is no room; m.mu is held.
func (m *Manager) overload() (Drop, mad.RejReason) {
	if m.flooded {
		return DropOverload, 0
	}
	return DropOverload, mad.RejNoResources
}

// forgetDisplaced ends a request that was displaced before it was answered, without a message: a peer that is there asks again. c.mu is held.
func (c *conn) forgetDisplaced() {
	c.m.count.drop(DropOverload)
	c.finish(ErrTimeout)
	c.emit(Event{Type: EventUnreachable, Err: ErrTimeout})
	c.close(ErrTimeout)
}
