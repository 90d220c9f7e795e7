package cmmutants

import (
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cmsuite"
)

// Offset of the ACK timeout of the primary path in a REQ (IBTA volume 1, 12.6.5).
const ackOffset = bodyOffset + 95

// Reasons of REJs (IBTA volume 1, 12.6.7.2).
const (
	noResources = 3
	timedOut    = 4
	byConsumer  = 28
)

// reason returns a change of the reason of REJs.
func reason(from, to byte) func([]byte) {
	return func(b []byte) {
		if b[bodyOffset+11] == from {
			b[bodyOffset+11] = to
		}
	}
}

// noTimeWait removes the ACK timeout of a REQ.
func noTimeWait(b []byte) { b[ackOffset] &= 7 }

var limits = []mutant.Mutant{
	edit("cm.limit-reason", cmsuite.CMLimit01, "a REJ, no resources, has the reason of a consumer", attrREJ,
		reason(noResources, byConsumer)),
	edit("cm.limit-status", cmsuite.CMLimit02, "a SIDR_REP with status no QP has status rejected", attrSIDRREP,
		func(b []byte) {
			if b[bodyOffset+4] == 3 {
				b[bodyOffset+4] = 2
			}
		}),
	edit("cm.limit-timeout", cmsuite.CMLimit03, "a REJ, timeout, has the reason of a consumer", attrREJ,
		reason(timedOut, byConsumer)),
	edit("cm.limit-flood", cmsuite.CMLimit04, "a REJ, no resources, has reason timeout", attrREJ,
		reason(noResources, timedOut)),
	lose("cm.limit-replies", cmsuite.CMLimit05, "each DREP after the fourth is a REJ", func(b []byte, nth int) bool {
		if isCM(b, attrDREP) && nth > 4 {
			b[17] = attrREJ
		}
		return false
	}),
	editIn("cm.limit-time-wait", cmsuite.CMLimit06, "each received REQ has no ACK timeout", attrREQ, noTimeWait),
	editIn("cm.limit-times", cmsuite.CMLimit07, "each received REQ has ACK timeout 0", attrREQ, noTimeWait),
}

var timers = []mutant.Mutant{
	edit("cm.timer-reason", cmsuite.CMTimer01, "a REJ, timeout, has reason no resources", attrREJ,
		reason(timedOut, noResources)),
	edit("cm.timer-which", cmsuite.CMTimer02, "an MRA of a REQ answers a REP, and the reverse", attrMRA,
		func(b []byte) { b[bodyOffset+8] ^= 0x40 }),
	edit("cm.timer-refusal", cmsuite.CMTimer03, "a REJ of the consumer has reason no resources", attrREJ,
		reason(byConsumer, noResources)),
	edit("cm.timer-status", cmsuite.CMTimer04, "each SIDR_REP has status rejected", attrSIDRREP,
		func(b []byte) { b[bodyOffset+4] = 2 }),
}
