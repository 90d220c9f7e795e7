package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// The deadlines of a QP. One timer of the HCA's wheel serves them all; what it finds due is done in the QP's turn of the run queue, since
// other deadlines wait for the wheel.

// setTimer sets the wheel to the earliest deadline.
func (q *QP) setTimer() {
	at := q.req.retryAt
	for _, t := range [...]time.Duration{q.req.rnrAt, q.req.paceAt, q.req.nakAt, q.resp.gapAt} {
		if t != 0 && (at == 0 || t < at) {
			at = t
		}
	}
	if at != 0 && (q.timerAt == 0 || at < q.timerAt) {
		q.timerAt = at
		q.hca.wheel.Set(&q.timer, at)
	}
}

// expire is the timer's function.
func (q *QP) expire() {
	q.due.Store(true)
	q.enqueueTurn()
}

// tick acts on the deadlines that have passed. The turn that follows sends, and sets the timer again.
func (q *QP) tick() {
	q.mu.Lock()
	q.timerAt = 0
	now := q.hca.clock.Now()
	if q.req.rnrAt != 0 && q.req.rnrAt <= now {
		q.req.rnrAt = 0
	}
	if q.req.paceAt != 0 && q.req.paceAt <= now {
		q.req.paceAt = 0
	}
	if q.resp.gapAt != 0 && q.resp.gapAt <= now {
		q.gapStays()
	}
	if q.req.nakAt != 0 && q.req.nakAt <= now {
		r := newRun(q)
		q.nakStays(r)
		r.finish()
		r.free()
	}
	late, p, mark := q.req.isLate(now), q.port, q.req.lateMark
	q.mu.Unlock()
	if !late || p == nil {
		return
	}
	// The acknowledgement may have arrived and not been delivered: in the port, or in the inbox of a QP that was busy.
	mark, caughtUp := p.catchUp(mark)
	q.mu.Lock()
	r := newRun(q)
	q.readInbox(r)
	if q.req.isLate(q.hca.clock.Now()) && (caughtUp && !q.hasInbox() || !q.postpone(mark)) {
		q.req.retryAt, q.req.lateness = 0, lateness{}
		q.timedOut(r)
	}
	r.finish()
	r.free()
	q.pending.Store(true)
	q.unlock()
}

// lateness is a timeout that has been put off.
type lateness struct {
	lateAt   time.Duration // when it was first put off; 0: not
	lateMark uint64        // of the port's CatchUp
}

// isLate reports whether the oldest packet counts as lost.
func (s *requester) isLate(now time.Duration) bool { return s.retryAt != 0 && s.retryAt <= now }

// postpone puts off a timeout for as long as the port has not caught up. It reports false when the timeout has been put off long enough: a
// transport timer may take up to four times the timeout (IBTA volume 1, 9.7.6.1.3), and a peer that floods the port must not stop it.
func (q *QP) postpone(mark uint64) bool {
	s := &q.req
	interval, now := q.retryInterval(), q.hca.clock.Now()
	if s.lateAt == 0 {
		s.lateAt = now
	}
	left := s.lateAt + 3*interval - now
	if left <= 0 {
		return false
	}
	q.hca.count.add(CountPostponed, 1)
	s.lateMark = mark
	s.retryAt = now + min(max(interval/16, postponeStep), left)
	return true
}

// postponeStep is the least time between two looks at a port that is behind.
const postponeStep = time.Millisecond

// retryInterval is the time after which the oldest packet counts as lost: the QP's timeout, but never less than what this host's scheduler may
// cost (CAAttr.AckDelay); 0 for a QP without timeout.
func (q *QP) retryInterval() time.Duration {
	t := q.attr.Primary.AckTimeout
	if t == 0 || q.service != wire.RC { // an alternate path brings a timeout to any service
		return 0
	}
	return timeout(max(t, q.hca.attr.AckDelay))
}

// retryDeadline is retryInterval from now; 0 for a QP without timeout.
func (q *QP) retryDeadline() time.Duration {
	if d := q.retryInterval(); d > 0 {
		return q.deadline(d)
	}
	return 0
}

// deadline is d from now.
func (q *QP) deadline(d time.Duration) time.Duration { return q.hca.clock.Now() + d }

// timeout is 4.096 us * 2^t.
func timeout(t ci.TimeExp) time.Duration { return 4096 * time.Nanosecond << t }
