package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// lateness is a timeout that has been put off.
type lateness struct {
	lateAt   time.Duration // when it was first put off; 0: not
	lateMark uint64        // of the port's CatchUp
}

// isLate reports whether the oldest packet counts as lost.
func (r *requester) isLate(now time.Duration) bool { return r.retryAt != 0 && r.retryAt <= now }

// postpone puts off a timeout for as long as the port has not caught up. It reports false when the timeout has been put
// off long enough: a transport timer may take up to four times the timeout (IBTA volume 1, 9.7.6.1.3), and a peer that
// floods the port must not stop it.
func (r *requester) postpone(mark uint64) bool {
	interval, now := r.retryInterval(), r.dev.clock.Now()
	if r.lateAt == 0 {
		r.lateAt = now
	}
	left := r.lateAt + 3*interval - now
	if left <= 0 {
		return false
	}
	r.dev.count.add(CountPostponed, 1)
	r.lateMark = mark
	r.retryAt = now + min(max(interval/16, postponeStep), left)
	return true
}

// postponeStep is the least time between two looks at a port that is behind.
const postponeStep = time.Millisecond

// retryInterval is the time after which the oldest packet counts as lost: the QP's timeout, but never less than what
// this host's scheduler may cost (CAAttr.AckDelay); 0 for a QP without timeout.
func (r *requester) retryInterval() time.Duration {
	t := r.attr.Primary.AckTimeout
	if t == 0 || r.service != wire.RC { // an alternate path brings a timeout to any service
		return 0
	}
	return timeout(max(t, r.dev.attr.AckDelay))
}

// retryDeadline is retryInterval from now; 0 for a QP without timeout.
func (r *requester) retryDeadline() time.Duration {
	if d := r.retryInterval(); d > 0 {
		return r.deadline(d)
	}
	return 0
}

// deadline is d from now.
func (r *requester) deadline(d time.Duration) time.Duration { return r.dev.clock.Now() + d }

// timeout is 4.096 us * 2^t.
func timeout(t ci.TimeExp) time.Duration { return 4096 * time.Nanosecond << t }

// timedOut is the end of the acknowledgement timer.
func (r *requester) timedOut(t *turn) {
	if st := r.current(); st != ci.QPRTS && st != ci.QPSQD && st != ci.QPSQDraining || r.una == r.max || r.rnrAt != 0 {
		return
	}
	r.dev.count.add(CountRetry, 1)
	if !r.spendRetry(t) {
		return
	}
	r.heeded, r.nakAt = sequenceErrors{}, 0
	r.rewind(r.una)
	r.slowDown()
}

// spendRetry takes one of the QP's retries; without any left, the QP migrates or fails.
func (r *requester) spendRetry(t *turn) bool {
	if r.retries > 0 {
		r.retries--
		return true
	}
	if r.attr.APM == ci.APMArmed {
		r.moveToAlternate()
		r.openWindow()
		r.retries = r.attr.RetryCount
		return true
	}
	r.sendError(t, ci.WCTimeoutRetryErr)
	return false
}

// sequenceErrors are the kinds of sequence error (IBTA volume 1, 9.7.5.2.8) that have had their retry since the last
// progress or timeout. A second one of a kind has none. A responder sends one NAK for a gap and is silent until the gap
// is closed, which is progress (9.7.5.1.1); an answer lost makes all answers behind it, which are on their way already,
// come too early. So what comes then tells of the same loss: it is the NAK that a network has doubled, or the answers
// to the first try. That an answer is one to the second try, whose beginning is lost as well, cannot be told: its
// packets are the same ones, and on a network that reorders their order says nothing. Such a loss is the timer's. After
// a timeout everything that was on its way has come or is lost, for that is what the timer is made of (9.7.6.1.3): a
// NAK that comes then is for what was sent again, and is heeded at once.
type sequenceErrors struct {
	nak     bool // told by a NAK
	implied bool // told by an answer that has overtaken another one
}

// sequenceNAK takes a NAK of a sequence error: everything from psn on is sent again.
func (r *requester) sequenceNAK(t *turn, psn ci.PSN) {
	if r.heeded.nak {
		return // the gap is being filled
	}
	if now := r.dev.clock.Now(); !r.naks.allow(now) {
		r.dev.count.add(CountNakDelayed, 1)
		r.heeded.nak, r.nakAt, r.nakPSN = true, now+nakPatience, psn
		return
	}
	r.goBack(t, psn)
}

// nakStays acts on a NAK that nothing has contradicted for nakPatience: no packet from the one on that it names was
// acknowledged.
func (r *requester) nakStays(t *turn) {
	r.nakAt = 0
	if st := r.current(); st != ci.QPRTS && st != ci.QPSQD && st != ci.QPSQDraining || r.una == r.max || r.rnrAt != 0 {
		return
	}
	r.naks.refund()
	r.goBack(t, r.nakPSN)
}

func (r *requester) goBack(t *turn, psn ci.PSN) {
	if r.spendRetry(t) {
		r.heeded.nak = true
		r.rewind(psn)
		r.slowDown()
	}
}

// lost asks again for the oldest answer: a later one has overtaken it (an implied NAK, IBTA volume 1, 9.7.5.2.8).
func (r *requester) lost(t *turn) {
	if r.heeded.implied || r.rnrAt != 0 {
		return
	}
	r.dev.count.add(CountSeqRetry, 1)
	if r.spendRetry(t) {
		r.heeded.implied = true
		r.rewind(r.una)
		r.slowDown()
	}
}

// nextDeadline returns the earliest deadline, or 0.
func (r *requester) nextDeadline() time.Duration {
	at := r.retryAt
	for _, t := range [...]time.Duration{r.rnrAt, r.paceAt, r.nakAt} {
		if t != 0 && (at == 0 || t < at) {
			at = t
		}
	}
	return at
}
