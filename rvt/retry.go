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

// postpone defers a timeout while the port has not caught up. It reports false when the timeout has been deferred long
// enough. A transport timer may take up to four times the timeout (IBTA volume 1, 9.7.6.1.3), and a peer that floods
// the port must not stop it.
func (r *requester) postpone(mark uint64) bool {
	interval, now := r.retryInterval(), r.dev.clock.Elapsed()
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

// postponeStep is the least time between two calls of CatchUp for one timeout.
const postponeStep = time.Millisecond

// retryInterval returns the time after which the oldest packet counts as lost: the timeout of the QP, but at least
// CAAttr.AckDelay, which covers delays of the scheduler. It returns 0 for a QP without timeout.
func (r *requester) retryInterval() time.Duration {
	t := r.attr.Primary.AckTimeout
	if t == 0 || r.service != wire.RC { // an alternate path brings a timeout to any service
		return 0
	}
	return timeout(max(t, r.dev.attr.AckDelay))
}

// retryDeadline returns the time retryInterval from now, or 0 for a QP without timeout.
func (r *requester) retryDeadline() time.Duration {
	if d := r.retryInterval(); d > 0 {
		return r.deadline(d)
	}
	return 0
}

// deadline returns the time d from now.
func (r *requester) deadline(d time.Duration) time.Duration { return r.dev.clock.Elapsed() + d }

// timeout returns 4.096 us * 2^t.
func timeout(t ci.TimeExp) time.Duration { return 4096 * time.Nanosecond << t }

// timedOut handles the end of the acknowledgement timer, which runs only while requests are outstanding and none waits
// for a receiver that is not ready.
func (r *requester) timedOut(t *turn) {
	r.dev.count.add(CountRetry, 1)
	if r.spendRetry(t) {
		r.retried, r.nakAt = sequenceErrors{}, 0
		r.rewind(r.una)
		r.slowDown()
	}
}

// spendRetry uses one retry of the QP. Without any left, an armed QP migrates, and any other fails: spendRetry reports
// false then.
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

// sequenceErrors are the kinds of sequence error (IBTA volume 1, 9.7.5.2.8) that have caused a retry since the last
// progress or timeout. A second error of a kind causes none.
//
// A responder sends one NAK for a gap and then none until the gap is closed, which is progress (9.7.5.1.1). A lost
// response makes all responses behind it come early. So a second error reports the same loss: it is a NAK that the
// network has duplicated, or a response to the first try. A response to the second try, whose beginning is lost as
// well, looks the same, because its packets are the same and a network may reorder them. The timer recovers from that
// loss. After a timeout, everything that was under way has arrived or is lost (9.7.6.1.3), so a NAK that comes then
// belongs to the second try and is acted on at once.
type sequenceErrors struct {
	nak     bool // by a NAK
	implied bool // by a response that has overtaken another one
}

// sequenceNAK handles a NAK of a sequence error: everything from una on, its PSN, is sent again.
func (r *requester) sequenceNAK(t *turn) {
	if r.retried.nak {
		return // the gap is being filled
	}
	if now := r.dev.clock.Elapsed(); !r.naks.allow(now) {
		r.dev.count.add(CountNakDelayed, 1)
		r.retried.nak, r.nakAt = true, now+nakPatience
		return
	}
	r.goBack(t)
}

// nakStays acts on a NAK that was delayed for nakPatience, in which no packet from the named one on was acknowledged.
func (r *requester) nakStays(t *turn) {
	r.nakAt = 0
	r.naks.refund()
	r.goBack(t)
}

// goBack resumes at the request of a NAK, which has acknowledged everything before it.
func (r *requester) goBack(t *turn) {
	if r.spendRetry(t) {
		r.retried.nak = true
		r.rewind(r.una)
		r.slowDown()
	}
}

// responseLost sends the oldest request again, because a later response has overtaken its response (an implied NAK,
// IBTA volume 1, 9.7.5.2.8).
func (r *requester) responseLost(t *turn) {
	if r.retried.implied || r.rnrAt != 0 {
		return
	}
	r.dev.count.add(CountImplied, 1)
	if r.spendRetry(t) {
		r.retried.implied = true
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
