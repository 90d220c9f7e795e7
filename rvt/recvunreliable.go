package rvt

// requestUC handles a request of an unreliable connection (IBTA volume 1, 9.8.2.2). A message with a missing packet is
// dropped without an answer, and its receive buffer is used for the next message.
func (r *responder) requestUC(t *turn, p *Packet) {
	if p.PSN != r.psn {
		if d := psnDiff(p.PSN, r.psn); d > farPSN || d < -farPSN {
			r.countFarPSN(p)
		}
		r.in = false
		r.skip = !p.Start
		r.psn = p.PSN
	}
	next := psnAdd(p.PSN, p.N)
	if p.Start {
		r.in, r.skip = false, false
	} else if r.skip || !r.in {
		r.dev.count.add(DropSequence, 1)
		r.psn = next
		return
	}
	v := r.message(t, p)
	r.psn = next
	if v == placed {
		r.establish()
		r.heard(p.N)
		return
	}
	r.in, r.skip = false, !p.End
	switch v {
	case earlier:
		r.unwind(t)
	case notReady:
		r.dev.count.add(DropNoRecv, 1)
	case tooLong, invalid:
		r.dev.count.add(DropLength, 1)
	case access, unsupported:
		r.dev.count.add(DropAccess, 1)
	default:
		r.localRecvError(t, v)
	}
}
