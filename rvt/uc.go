package rvt

// requestUC is the responder's rule for an unreliable connection (IBTA volume 1, 9.8.2.2): a message of which a packet is missing is
// dropped, its receive buffer waits for the next one, and nobody is told.
func (q *QP) requestUC(r *run, p *Packet) {
	s := &q.resp
	if p.PSN != s.psn {
		if d := psnDiff(p.PSN, s.psn); d > farPSN || d < -farPSN {
			q.seeFarPSN(p)
		}
		s.in = false
		s.skip = !p.Start
		s.psn = p.PSN
	}
	next := psnAdd(p.PSN, p.N)
	if p.Start {
		s.in, s.skip = false, false
	} else if s.skip || !s.in {
		q.hca.count.add(DropSequence, 1)
		s.psn = next
		return
	}
	v := q.message(r, p)
	s.psn = next
	if v == placed {
		q.seen()
		q.heard(p.N)
		return
	}
	s.in, s.skip = false, !p.End
	switch v {
	case notReady:
		q.hca.count.add(DropNoRecv, 1)
	case tooLong, invalid:
		q.hca.count.add(DropLength, 1)
	case access, unsupported:
		q.hca.count.add(DropAccess, 1)
	default:
		q.localRecvError(r, v)
	}
}
