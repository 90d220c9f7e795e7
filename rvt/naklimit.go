package rvt

import (
	"time"
)

// A sequence error costs the requester everything that is on its way, which it sends again. A packet with a forged PSN
// ahead of the expected one, or a forged NAK, causes such an error though nothing was lost. So sequence errors of a QP
// are acted on at once only as often as nakLimit allows; beyond that, only those that are still there after nakPatience
// are: a gap that a lost packet left stays open until then, one that a forged packet made is closed by the next packet
// of the stream. An error that turns out to be real gives back some of what it used up, so that a network that loses
// many packets delays few recoveries. The responder limits the NAKs that it sends, the requester those that it acts on
// (IBTA volume 1, 9.7.5.1.1 and 9.7.5.2.8 allow both: a NAK may be lost).
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
