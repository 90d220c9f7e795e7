package cm

import (
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/mad"
)

// Admission of requests
//
// A request is admitted if there is room. Otherwise it displaces a request from a source with more unfinished requests,
// or a request whose peer has not answered the REP for displaceAfter. If there is none, the new request is dropped in a
// flood, and rejected (no resources) at other times.
//
// A flood from several sources therefore does not keep out a peer that sends less than each of them. In a flood from
// addresses that are all different, each request keeps its place for displaceAfter only.

const (
	// displaceAfter is how long a request keeps its place after the REP. An active peer answers within a round trip.
	// With the default of 4096 pending requests, there is room for 20,000 requests per second.
	displaceAfter = 200 * time.Millisecond
	// displaceEarly replaces displaceAfter for a request whose source has more unfinished requests.
	displaceEarly = 20 * time.Millisecond
	// pendingSamples is the number of pending requests that are compared to find one to displace.
	pendingSamples = 16
	// backlogSamples is the corresponding number for the backlog of a listener.
	backlogSamples = 128
	// floodRate is the number of requests per second, from all sources together, above which requests without a place
	// are dropped instead of rejected. An active peer then retransmits its request, which may find room.
	floodRate = 1000
)

// flow counts requests per second. Manager.mu guards it.
type flow struct {
	second    time.Duration
	thisCount int // in the current second
	lastCount int // in the second before
}

// add counts a request and reports whether there is a flood.
func (f *flow) add(now time.Duration) bool {
	if s := now / time.Second; s != f.second {
		f.lastCount = 0
		if s == f.second+1 {
			f.lastCount = f.thisCount
		}
		f.second, f.thisCount = s, 0
	}
	f.thisCount++
	return max(f.thisCount, f.lastCount) > floodRate
}

// addReplied adds a request whose REP has been sent to the list of those that wait for an RTU. The caller holds m.mu.
func (m *Manager) addReplied(c *conn) {
	if c.pending {
		c.repliedAt = max(m.clock.Elapsed(), 1)
		m.replied.add(c)
	}
}

// addPending adds a request to the pending ones. It returns false if there is no room. The caller holds m.mu.
func (m *Manager) addPending(c *conn) bool {
	unfinished := m.unfinished.count(&c.from, m.clock.Elapsed())
	if m.perPeer[c.from] >= m.cfg.MaxPendingPeer || len(m.pending) >= m.cfg.MaxPending && !m.makeRoom(unfinished) {
		return false
	}
	c.pending, c.pendingIndex = true, len(m.pending)
	m.pending = append(m.pending, c)
	m.perPeer[c.from]++
	return true
}

// removePending removes a request from the pending ones, because it is established or has ended. The caller holds m.mu.
func (m *Manager) removePending(c *conn) {
	if !c.pending {
		return
	}
	c.pending = false
	if c.repliedAt != 0 {
		c.repliedAt = 0
		m.replied.remove(c)
	}
	last := len(m.pending) - 1
	m.pending[c.pendingIndex] = m.pending[last]
	m.pending[c.pendingIndex].pendingIndex = c.pendingIndex
	m.pending[last] = nil
	m.pending = m.pending[:last]
	if m.perPeer[c.from]--; m.perPeer[c.from] == 0 {
		delete(m.perPeer, c.from)
	}
}

// makeRoom displaces a pending request in favor of a new one whose source has the given number of unfinished requests.
// It reports whether it displaced one. The caller holds m.mu.
func (m *Manager) makeRoom(unfinished uint32) bool {
	now := m.clock.Elapsed()
	var victim *conn
	var largest uint32
	for range pendingSamples {
		c := m.pending[m.ids.rand.Uint64()%uint64(len(m.pending))]
		if c.repliedAt != 0 && now-c.repliedAt < displaceEarly {
			continue
		}
		if n := m.unfinished.count(&c.from, now); isLarger(n, unfinished) && n > largest {
			victim, largest = c, n
		}
	}
	if victim == nil {
		if c := m.replied.first; c != nil && now-c.repliedAt >= displaceAfter {
			victim = c
		}
	}
	if victim == nil {
		return false
	}
	m.displace(victim)
	return true
}

// displace removes a pending request. Its place is free at once. Its timer does the rest, because the caller must not
// take the lock of another connection. The caller holds m.mu.
func (m *Manager) displace(c *conn) {
	c.displaced = true
	m.removePending(c)
	if c.listener != nil {
		c.listener.dequeue(c)
	}
	m.wheel.Set(&c.timer, 1)
}

// victimOf returns the waiting request to displace in favor of a new one whose source has the given number of
// unfinished requests. It is the request whose source has the most; among equals, the newest. ok is false if no source
// has more than the given one. Of a long backlog, victimOf compares backlogSamples requests chosen at random. The
// caller holds m.mu.
func victimOf[R any](m *Manager, waiting []R, source func(R) *mads.Source, unfinished uint32) (victim R, ok bool) {
	now := m.clock.Elapsed()
	var largest uint32
	for i := range min(len(waiting), backlogSamples) {
		r := waiting[i]
		if len(waiting) > backlogSamples {
			r = waiting[m.ids.rand.Uint64()%uint64(len(waiting))]
		}
		if n := m.unfinished.count(source(r), now); isLarger(n, unfinished) && n >= largest {
			victim, largest, ok = r, n, true
		}
	}
	return victim, ok
}

// makeRoom displaces a request that waits for Accept in favor of a new one whose source has the given number of
// unfinished requests. It reports whether it displaced one. The caller holds m.mu.
func (l *listener) makeRoom(unfinished uint32) bool {
	c, ok := victimOf(l.m, l.conns.requests, func(c *conn) *mads.Source { return &c.from }, unfinished)
	if ok {
		l.m.displace(c)
	}
	return ok
}

// makeRoomForLookup displaces a SIDR request that waits for AcceptLookup in favor of a new one whose source has the
// given number of unfinished requests. It reports whether it displaced one. The caller holds m.mu.
func (l *listener) makeRoomForLookup(unfinished uint32) bool {
	r, ok := victimOf(l.m, l.lookups.requests, func(r *lookupRequest) *mads.Source { return &r.source }, unfinished)
	if ok {
		r.removeLocked()
	}
	return ok
}

// overloadReason returns the reason with which a request without a place is rejected: 0 to drop it. The caller holds
// m.mu.
func (m *Manager) overloadReason() mad.RejReason {
	if m.flooded {
		return 0
	}
	return mad.RejNoResources
}

// endDisplaced ends a request that was displaced before it was answered. It sends nothing: an active peer repeats its
// request. The caller holds c.mu.
func (c *conn) endDisplaced() {
	c.m.count.drop(DropOverload)
	c.finish(ErrTimeout)
	c.emit(Event{Type: EventUnreachable, Err: ErrTimeout})
	c.close(ErrTimeout)
}
