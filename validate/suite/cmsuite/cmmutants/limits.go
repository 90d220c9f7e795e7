package cmmutants

import (
	"ciddk/ci"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
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
	lose("cm.limit-copies", cmsuite.CMLimit08, "each REP after the fourth is lost", after(4, attrREP)),
	edit("cm.limit-displaced", cmsuite.CMLimit09, "a SIDR_REP has status rejected", attrSIDRREP,
		func(b []byte) { b[bodyOffset+4] = 2 }),
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

// Other reasons of REJs.
const (
	invalidTransport = 9
	staleConnection  = 10
	duplicateID      = 30
	classVersion     = 31
)

// loaded makes an APR report the path as loaded.
func loaded(b []byte) { b[bodyOffset+9] = 0 }

var closes = []mutant.Mutant{
	edit("cm.close-reason", cmsuite.CMClose01, "a REJ of the consumer has reason no resources", attrREJ,
		reason(byConsumer, noResources)),
	edit("cm.close-copy", cmsuite.CMClose02, "a REJ, stale connection, has reason no resources", attrREJ,
		reason(staleConnection, noResources)),
	edit("cm.close-manager", cmsuite.CMClose03, "a REJ, timeout, has reason no resources", attrREJ,
		reason(timedOut, noResources)),
}

var adapters = []mutant.Mutant{
	edit("cm.adapter-apr", cmsuite.CMAdapter01, "each APR reports the path as loaded", attrAPR, loaded),
	edit("cm.adapter-service", cmsuite.CMAdapter02, "a REJ, invalid transport service, has reason no resources",
		attrREJ, reason(invalidTransport, noResources)),
	edit("cm.adapter-partition", cmsuite.CMAdapter03, "each APR reports the path as loaded", attrAPR, loaded),
}

var managers = []mutant.Mutant{
	edit("cm.manager-next", cmsuite.CMManager01, "a REJ of the consumer has reason no resources", attrREJ,
		reason(byConsumer, noResources)),
	lose("cm.manager-returns", cmsuite.CMManager02, "each SIDR_REQ after the first is lost", after(1, attrSIDRREQ)),
}

var callers = []mutant.Mutant{
	edit("cm.call-time", cmsuite.CMCall01, "each MRA requests 4 us", attrMRA, func(b []byte) { b[bodyOffset+9] = 0 }),
	editIn("cm.call-order", cmsuite.CMCall02, "each received REQ has another communication ID", attrREQ,
		func(b []byte) { b[bodyOffset] ^= 1 }),
	edit("cm.call-cancelled", cmsuite.CMCall03, "a REJ, timeout, has reason no resources", attrREJ,
		reason(timedOut, noResources)),
	editIn("cm.call-event", cmsuite.CMCall04, "each received RTU has no private data", attrRTU,
		func(b []byte) { clear(b[bodyOffset+8:]) }),
}

var stales = []mutant.Mutant{
	edit("cm.stale-reason", cmsuite.CMStale01, "a REJ, stale connection, has reason no resources", attrREJ,
		reason(staleConnection, noResources)),
	edit("cm.stale-id", cmsuite.CMStale02, "a REJ, duplicate communication ID, has reason no resources", attrREJ,
		reason(duplicateID, noResources)),
	editIn("cm.stale-timeout", cmsuite.CMStale03, "a received REJ, timeout, has the reason of a consumer", attrREJ,
		reason(timedOut, byConsumer)),
	fault("cm.stale-forged", cmsuite.CMStale04, "a received REQ with PSN 8 is a REJ of the last connection",
		becomesREJ()),
	edit("cm.stale-version", cmsuite.CMStale05, "a REJ, invalid class version, has reason no resources", attrREJ,
		reason(classVersion, noResources)),
}

// becomesREJ changes received REQs whose starting PSN is 8: each is a REJ with the communication IDs of the last REP
// that was sent.
func becomesREJ() func(ci.HCA) ci.HCA {
	ids := withIDs(attrREJ)
	return func(h ci.HCA) ci.HCA {
		return ids(tap.MADIn(func(b []byte) {
			if isCM(b, attrREQ) && b[bodyOffset+46] == 8 {
				b[17] = attrREJ
			}
		})(h))
	}
}
