package storm

import (
	"ciddk/ci"
	"ciddk/wire"
)

// post records a receive before the consumer posts it.
func (q *recvQueue) post(r recv) { q.list = append(q.list, r) }

// take removes and returns the oldest receive, or returns nil.
func (q *recvQueue) take() *recv {
	if len(q.list) == 0 {
		return nil
	}
	r := q.list[0]
	q.list = q.list[1:]
	return &r
}

// gotRequest handles a request packet that arrived (9.7.4).
func (s *side) gotRequest(p *wire.Packet) {
	n := number(p.BTH.PSN, s.attr.RQPSN, s.expect)
	switch {
	case n > s.expect:
		if !s.silent {
			s.silent = true
			if s.gapLimit.allow(s.o.now()) {
				s.oweNAK(wire.NAKPSNSequence, s.expect)
			} else {
				s.gapAt = s.o.now() + errorPatience
			}
		}
	case n < s.expect && s.gapAt != 0: // the requester has begun a retransmission, which will close the gap
		s.gapAt = s.o.now() + errorPatience
		fallthrough
	case n < s.expect: // a duplicate is acknowledged or answered again, but not executed (9.7.5.1.2)
		if op := p.BTH.Opcode.Op(); (op == wire.OpSend || op == wire.OpWrite) && p.BTH.AckReq {
			s.ackDue = true
		}
	default:
		s.silent, s.gapAt = false, 0
		s.execute(p)
	}
}

// oweNAK makes a NAK due. It replaces an earlier one at the same time, since it acknowledges everything before it.
func (s *side) oweNAK(syn wire.Syndrome, n int64) {
	s.nak, s.ackDue = &nak{syn, n, n}, false
}

// execute executes the expected packet.
func (s *side) execute(p *wire.Packet) {
	for s.peer.reqs[s.exec].end() <= s.expect {
		s.exec++
	}
	r := s.peer.reqs[s.exec]
	k := s.expect - r.first
	last := k == r.n-1
	switch {
	case r.wrong == remoteKey && k == 0:
		if last && r.op == ci.OpWrite && r.imms() { // the receive of its immediate data reports it, if there is one
			s.in = s.rq.take()
		}
		s.refuse(r, wire.NAKRemoteAccess, ci.WCLocalAccessErr)
		return
	case r.wrong == misaligned:
		s.refuse(r, wire.NAKInvalidRequest, 0)
		return
	}
	if r.op == ci.OpSend && k == 0 || r.op == ci.OpWrite && last && r.imms() {
		if s.in = s.rq.take(); s.in == nil {
			s.silent = true
			s.oweNAK(wire.RNRNAK(s.attr.MinRNRTimer), s.expect)
			return
		}
		s.inBytes = 0
	}
	switch r.op {
	case ci.OpSend:
		if s.inBytes += uint32(len(p.Payload)); s.inBytes > s.in.room {
			s.refuse(r, wire.NAKInvalidRequest, ci.WCLocalLenErr)
			return
		}
		s.expect++
	case ci.OpWrite:
		s.expect++
	case ci.OpRead:
		n := max((int64(p.RETH.DMALen)+s.mtu-1)/s.mtu, 1)
		s.answers = append(s.answers, span{s.expect, s.expect + n})
		s.expect += n
		last = true
	default:
		r.orig = *r.word
		switch {
		case r.op == ci.OpFetchAdd:
			*r.word += r.atomic.Compare
		case r.orig == r.atomic.Compare:
			*r.word = r.atomic.Swap
		}
		s.answers = append(s.answers, span{s.expect, s.expect + 1})
		s.expect++
	}
	if last {
		s.msn = (s.msn + 1) & wire.Mask24
	}
	if s.in != nil && last {
		s.wantRecv = append(s.wantRecv, wanted{id: s.in.id, r: r})
		s.in = nil
	}
	if p.BTH.AckReq && !r.hasResponse() {
		s.ackDue = true
	}
}

// refuse rejects a request, which moves the queue pair to the error state. The NAK may have the PSN of any packet of
// the message up to the rejected one, because those before it may have arrived together with it.
func (s *side) refuse(r *request, syn wire.Syndrome, st ci.WCStatus) {
	s.oweNAK(syn, s.expect)
	s.nak.lo = r.first
	if s.in != nil {
		s.wantRecv = append(s.wantRecv, wanted{id: s.in.id, status: st})
		s.in = nil
	}
	answers := s.answers
	s.enterError(ci.WCFlushErr)
	s.answers = answers
}

// sentResponse checks a response packet that the side sent.
func (s *side) sentResponse(p *wire.Packet) {
	s.failLocal()
	n := number(p.BTH.PSN, s.attr.RQPSN, s.expect)
	if s.failed && s.o.now() != s.failedAt {
		s.fail("a queue pair in the error state since %v sends %v", s.failedAt, p.BTH.Opcode)
		return
	}
	syn := p.AETH.Syndrome
	switch p.BTH.Opcode.Op() {
	case wire.OpAcknowledge:
		if syn.IsACK() {
			if n >= s.expect {
				s.fail("packet %d is acknowledged; everything up to %d has been executed", n, s.expect-1)
			}
			break
		}
		if syn == wire.NAKPSNSequence && s.gapAt != 0 && s.gapAt == s.o.now() {
			s.gapAt = 0
			s.gapLimit.refund()
			s.oweNAK(syn, s.expect)
		}
		if s.nak == nil || s.nak.syn != syn || n < s.nak.lo || n > s.nak.hi {
			s.fail("%v with PSN of packet %d is sent; due is %+v", syn, n, s.nak)
			return
		}
		s.nak = nil
	default:
		r := s.peer.at(n)
		if n >= s.expect || r == nil || !r.hasResponse() || p.BTH.Opcode.Op() == wire.OpAtomicAcknowledge &&
			(r.op == ci.OpRead || p.AtomicAckETH.Orig != r.orig) {
			s.fail("packet %d is answered by %v, %+v", n, p.BTH.Opcode, p.AtomicAckETH)
			return
		}
		if len(s.answers) > 0 && s.answers[0].next == n {
			if s.answers[0].next++; s.answers[0].next == s.answers[0].end {
				s.answers = s.answers[1:]
			}
		}
		s.ackDue = false
		return
	}
	if p.AETH.MSN != s.msn {
		s.fail("%v has MSN %d; %d messages are complete", p.BTH.Opcode, p.AETH.MSN, s.msn)
	}
	s.ackDue = false
}

// received checks a completion of the receive queue. It returns the request that filled the receive, or nil.
func (s *side) received(wc *ci.WC) *request {
	s.touch()
	if len(s.wantRecv) == 0 {
		s.elapsed() // a failure of the requester flushes receives
	}
	if len(s.wantRecv) == 0 {
		s.fail("receive %d completes with %v, and nothing is to complete", wc.ID, wc.Status)
		return nil
	}
	w := s.wantRecv[0]
	s.wantRecv = s.wantRecv[1:]
	if wc.ID != w.id || wc.Status != w.status {
		s.fail("receive %d completes with %v; it must be receive %d with %v", wc.ID, wc.Status, w.id, w.status)
		return nil
	}
	if w.status != ci.WCSuccess {
		return nil
	}
	r := w.r
	want := ci.WC{Op: ci.WCRecv, Length: r.size}
	if r.op == ci.OpWrite {
		want.Op = ci.WCRecvWrite
	}
	switch {
	case r.imms():
		want.Flags, want.Imm = ci.WCImmediate, r.imm
	case r.flags&ci.SendInvalidate != 0:
		want.Flags, want.Imm = ci.WCInvalidated, uint32(r.inv)
	}
	if wc.Op != want.Op || wc.Length != want.Length || wc.Flags != want.Flags || wc.Imm != want.Imm {
		s.fail("receive %d: %+v, want op %#x, %d bytes, flags %#x, immediate or key %#x", wc.ID, *wc,
			want.Op, want.Length,
			want.Flags, want.Imm)
	}
	return r
}
