package rvt

import (
	"time"
)

// nakLimit limits how often a QP acts on sequence errors at once. Such an error makes the requester send everything
// again that is outstanding, and a forged packet with a PSN ahead of the expected one, or a forged NAK, can cause it
// although nothing was lost.
//
// Errors beyond the limit are acted on only if they persist for nakPatience. A gap that a lost packet left stays open
// until then; one that a forged packet made is closed by the next packet of the stream. A real error refunds a part of
// its cost, so that a network that loses many packets delays few recoveries. The responder limits the NAKs that it
// sends, and the requester those that it acts on. IBTA volume 1, 9.7.5.1.1 and 9.7.5.2.8, allow both, since a NAK may
// be lost.
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

// refund returns a part of the cost of an error that was real.
func (l *nakLimit) refund() { l.at -= nakRefund * nakEvery }
