package rvt

import "ciddk/wire"

// gap handles a request behind a gap. The gap is reported once.
func (r *responder) gap() {
	if r.silent {
		return
	}
	r.silent = true
	if now := r.dev.clock.Elapsed(); !r.naks.allow(now) {
		r.dev.count.add(CountNakDelayed, 1)
		r.gapAt = now + nakPatience
		return
	}
	r.dev.count.add(CountSeqNak, 1)
	r.setNak(wire.NAKPSNSequence)
}

// refilling extends the time of a gap: a duplicate shows that the requester is retransmitting already.
func (r *responder) refilling() {
	if r.gapAt != 0 {
		r.gapAt = r.dev.clock.Elapsed() + nakPatience
	}
}

// gapStays reports a gap that is still there after nakPatience.
func (r *responder) gapStays() {
	r.gapAt = 0
	r.naks.refund()
	r.dev.count.add(CountSeqNak, 1)
	r.setNak(wire.NAKPSNSequence)
}
