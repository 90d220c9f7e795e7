package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// A sequence error costs the requester everything that is on its way, which it sends again. A packet with a forged PSN ahead of the expected one,
// or a forged NAK, causes such an error though nothing was lost. So sequence errors of a QP are acted on at once only as often as nakLimit allows;
// beyond that, only those that are still there after nakPatience are: a gap that a lost packet left stays open until then, one that a forged
// packet made is closed by the next packet of the stream. An error that turns out to be real gives back some of what it used up, so that a network
// that loses many packets delays few recoveries. The responder limits the NAKs that it sends, the requester those that it acts on (IBTA volume
// 1, 9.7.5.1.1 and 9.7.5.2.8 allow both: a NAK may be lost).
type nakLimit struct {
	at time.Duration // when all that was acted on will have been paid for
}

const (
	nakEvery    = 50 * time.Millisecond // a sequence error each, sustained
	nakBurst    = 16                    // at once
	nakRefund   = 8                     // for one that was real
	nakPatience = time.Millisecond
)

// allow reports whether a sequence error is acted on at once, and counts it if so.
func (l *nakLimit) allow(now time.Duration) bool {
	at := max(l.at, now)
	if at-now > (nakBurst-1)*nakEvery {
		return false
	}
	l.at = at + nakEvery
	return true
}

// refund gives back what a real error used up.
func (l *nakLimit) refund() { l.at -= nakRefund * nakEvery }

// gap is a request behind a gap: it is reported once.
func (q *QP) gap() {
	s := &q.resp
	if s.silent {
		return
	}
	s.silent = true
	if now := q.hca.clock.Now(); !s.naks.allow(now) {
		q.hca.count.add(CountNakDelayed, 1)
		s.gapAt = now + nakPatience
		return
	}
	q.hca.count.add(CountSeqNak, 1)
	s.setNak(wire.NAKPSNSequence)
}

// refilling notes a duplicate: the requester has gone back already, so a gap has more time to close. The caller holds the token.
func (s *responder) refilling(q *QP) {
	if s.gapAt != 0 {
		s.gapAt = q.hca.clock.Now() + nakPatience
	}
}

// gapStays reports a gap that is still there after nakPatience.
func (q *QP) gapStays() {
	s := &q.resp
	s.gapAt = 0
	if st := q.current(); st < ci.QPRTR || st == ci.QPError || !s.silent {
		return
	}
	s.naks.refund()
	q.hca.count.add(CountSeqNak, 1)
	s.setNak(wire.NAKPSNSequence)
}

// sequenceNAK takes a NAK of a sequence error: everything from psn on is sent again.
func (q *QP) sequenceNAK(r *run, psn ci.PSN) {
	s := &q.req
	if s.heeded.nak {
		return // the gap is being filled
	}
	if now := q.hca.clock.Now(); !s.naks.allow(now) {
		q.hca.count.add(CountNakDelayed, 1)
		s.heeded.nak, s.nakAt, s.nakPSN = true, now+nakPatience, psn
		return
	}
	q.goBack(r, psn)
}

// nakStays acts on a NAK that nothing has contradicted for nakPatience: no packet from the one on that it names was acknowledged.
func (q *QP) nakStays(r *run) {
	s := &q.req
	s.nakAt = 0
	if st := q.current(); st != ci.QPRTS && st != ci.QPSQD && st != ci.QPSQDraining || s.una == s.max || s.rnrAt != 0 {
		return
	}
	s.naks.refund()
	q.goBack(r, s.nakPSN)
}

func (q *QP) goBack(r *run, psn ci.PSN) {
	if q.spendRetry(r) {
		q.req.heeded.nak = true
		q.rewind(psn)
		q.slowDown()
	}
}
