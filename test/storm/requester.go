package storm

import (
	"ciddk/ci"
	"ciddk/wire"
)

// post records a request before the consumer posts it. posted ends a list of them.
func (s *side) post(r *request) {
	s.touch()
	r.first = s.next
	switch r.op {
	case ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpCompareSwap, ci.OpFetchAdd:
		r.n = max((int64(r.size)+s.mtu-1)/s.mtu, 1)
	}
	s.next += r.n
	s.reqs = append(s.reqs, r)
	if s.failed {
		s.fail("request %d is posted to a queue pair in the error state: a defect of the storm", r.id)
	}
}

// posted handles the end of a list of posted requests.
func (s *side) posted() {
	s.runLocal()
	s.retire()
}

// runLocal marks the local operations that the HCA has executed: those that are next, unless the requester waits after
// an RNR NAK. A local invalidation waits for all requests before it, because a retransmission might need the key.
func (s *side) runLocal() {
	for i := s.head; i < len(s.reqs) && s.reqs[i].first <= s.cursor && !s.waiting(); i++ {
		if r := s.reqs[i]; r.n == 0 {
			if r.op == ci.OpLocalInv {
				return
			}
			r.ran = true
		}
	}
}

// at returns the request of a packet, or nil.
func (s *side) at(p int64) *request {
	lo, hi := 0, len(s.reqs)
	for lo < hi {
		if m := (lo + hi) / 2; s.reqs[m].end() <= p {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < len(s.reqs) && s.reqs[lo].first <= p {
		return s.reqs[lo]
	}
	return nil
}

// number returns the packet number of a 24-bit PSN that is nearest to the number near.
func number(psn uint32, first ci.PSN, near int64) int64 {
	return near + int64(wire.PSNDiff(psn, wire.PSNAdd(uint32(first), int(near&wire.Mask24))))
}

// failLocal fails a queue pair whose next request has an invalid local key. The engine finds out when it sends, after
// it has processed all packets that arrived together.
func (s *side) failLocal() {
	if s.rejects && !s.failed {
		s.enterError(ci.WCLocalProtErr)
	}
}

// waiting reports whether the requester waits after an RNR NAK.
func (s *side) waiting() bool { return s.waitUntil != 0 && s.o.now() <= s.waitUntil }

// sentRequest checks a request packet that the side sent.
func (s *side) sentRequest(p *wire.Packet) {
	s.failLocal()
	now := s.o.now()
	n := number(p.BTH.PSN, s.attr.SQPSN, s.cursor)
	switch {
	case s.failed:
		s.fail("a queue pair in the error state sends a request, %v", p.BTH.Opcode)
		return
	case s.waitUntil > now:
		s.fail("the receiver is not ready before %v, and a request is sent", s.waitUntil)
		return
	}
	if s.waitUntil != 0 {
		s.waitUntil = 0
		s.retire()
	}
	if s.heldAt == now && n != s.cursor {
		s.retryHeld()
	}
	if s.deadline == now && s.acked < s.sent && (n != s.cursor || s.cursor == s.acked) {
		s.expire()
	}
	r := s.at(n)
	switch {
	case s.failed:
		s.fail("retries are exhausted, and packet %d is sent again", n)
		return
	case n != s.cursor:
		s.fail("packet %d is sent out of turn: the next one is %d", n, s.cursor)
		return
	case r == nil:
		s.fail("packet %d is sent, and belongs to no request", n)
		return
	}
	span := s.checkRequest(p, r, n-r.first)
	if n == s.sent {
		s.checkStart(r)
	}
	s.cursor = n + span
	s.sent = max(s.sent, s.cursor)
	s.runLocal()
	if s.deadline == 0 {
		s.deadline = now + s.wait
	}
}

// checkRequest compares packet k of a request with the posted request. It returns the number of PSNs that the packet
// uses: those of the response for a READ (9.7.2.1).
func (s *side) checkRequest(p *wire.Packet, r *request, k int64) int64 {
	left := int64(r.size) - k*s.mtu
	last := k == r.n-1
	ops := map[ci.SendOp]wire.Op{ci.OpSend: wire.OpSend, ci.OpWrite: wire.OpWrite, ci.OpRead: wire.OpReadRequest,
		ci.OpCompareSwap: wire.OpCompareSwap, ci.OpFetchAdd: wire.OpFetchAdd}
	start, end := k == 0, last
	if r.hasResponse() {
		start, end = true, true
	}
	want, _ := wire.Make(wire.RC, ops[r.op], start, end, end && r.imms(), end && r.op == ci.OpSend &&
		r.flags&ci.SendInvalidate != 0)
	span := int64(1)
	ok := p.BTH.Opcode == want && r.wrong != localKey
	switch r.op {
	case ci.OpSend, ci.OpWrite:
		ok = ok && int64(len(p.Payload)) == min(left, s.mtu) && (!last || p.BTH.AckReq &&
			p.BTH.SE == (r.flags&ci.SendSolicited != 0)) &&
			(want.HasImm() == (last && r.imms())) && (!want.HasImm() || p.ImmDt.Imm == r.imm) &&
			(!want.HasIETH() || p.IETH.RKey == uint32(r.inv))
		if r.op == ci.OpWrite && k == 0 {
			ok = ok && p.RETH == (wire.RETH{VA: r.remote.Addr, RKey: uint32(r.remote.RKey), DMALen: r.size})
		}
	case ci.OpRead:
		ask := int64(p.RETH.DMALen)
		span = max((ask+s.mtu-1)/s.mtu, 1)
		ok = ok && p.RETH.VA == r.remote.Addr+uint64(k*s.mtu) && p.RETH.RKey == uint32(r.remote.RKey) &&
			(ask == left || ask < left && ask%s.mtu == 0 && ask > 0)
	default:
		x := wire.AtomicETH{VA: r.remote.Addr, RKey: uint32(r.remote.RKey), SwapAdd: r.atomic.Compare}
		if r.op == ci.OpCompareSwap {
			x.SwapAdd, x.Compare = r.atomic.Swap, r.atomic.Compare
		}
		ok = ok && p.AtomicETH == x
	}
	if !ok {
		s.fail("packet %d of request %d is %v with %d bytes, %+v %+v %+v: not what was posted", k, r.id, p.BTH.Opcode,
			len(p.Payload), p.RETH, p.AtomicETH, p.ImmDt)
	}
	return span
}

// checkStart checks that a request may be sent for the first time: fences (10.8.3.3), and the limit of outstanding
// responses (9.7.2.1).
func (s *side) checkStart(r *request) {
	out := 0
	for i := s.head; i < len(s.reqs) && s.reqs[i] != r; i++ {
		if s.reqs[i].hasResponse() && s.acked < s.reqs[i].end() {
			out++
		}
	}
	if out > 0 && r.flags&ci.SendFence != 0 {
		s.fail("request %d has a fence and is sent before %d responses have arrived", r.id, out)
	}
	if r.hasResponse() && out >= int(s.attr.InitDepth) {
		s.fail("request %d is sent with %d answers outstanding, of %d", r.id, out, s.attr.InitDepth)
	}
}

// gotResponse handles a response that arrived (9.7.5.1, 9.7.5.2).
func (s *side) gotResponse(p *wire.Packet) {
	n := number(p.BTH.PSN, s.attr.SQPSN, s.acked)
	if n < s.acked || n >= s.sent {
		return // stale or a duplicate
	}
	switch p.BTH.Opcode.Op() {
	case wire.OpAcknowledge:
		s.gotAck(n, p.AETH.Syndrome)
	default: // a response of a READ or an atomic acknowledges everything before it
		if !s.credit(n) {
			s.gap()
			return
		}
		if s.failed {
			return
		}
		if r := s.at(n); !r.hasResponse() || (r.op == ci.OpRead) != (p.BTH.Opcode.Op() == wire.OpReadResponse) {
			s.fail("packet %d has the response %v, for which there is no request", n, p.BTH.Opcode)
			return
		}
		s.acked = n + 1
		s.progress()
	}
}

// gotAck handles an ACK or NAK that arrived.
func (s *side) gotAck(n int64, syn wire.Syndrome) {
	if syn.IsACK() {
		if !s.credit(n + 1) {
			s.gap()
		}
		return
	}
	if !s.credit(n) { // a NAK acknowledges everything before it
		s.gap()
		return
	}
	switch {
	case s.failed:
	case syn.IsRNRNAK():
		if s.waiting() {
			return
		}
		s.o.rnr++
		if s.rnr == 0 {
			s.enterError(ci.WCRNRRetryErr)
			return
		}
		if s.rnr != 7 {
			s.rnr--
		}
		s.cursor, s.unready = n, n
		s.told, s.overtaken = true, true
		s.deadline, s.heldAt = 0, 0
		s.waitUntil = s.o.now() + wire.RNRTimer(syn.Value())
	case syn == wire.NAKPSNSequence:
		switch {
		case s.told:
		case s.nakLimit.allow(s.o.now()):
			s.o.naks++
			s.told = true
			s.retry(n)
		default:
			s.told, s.held, s.heldAt = true, n, s.o.now()+errorPatience
		}
	case syn == wire.NAKInvalidRequest:
		s.enterError(ci.WCRemInvalidReqErr)
	case syn == wire.NAKRemoteAccess:
		s.enterError(ci.WCRemAccessErr)
	case syn == wire.NAKRemoteOperation:
		s.enterError(ci.WCRemOpErr)
	}
}

// credit marks the packets before n as acknowledged. It returns false if it stops at a READ or an atomic, whose
// response has not arrived.
func (s *side) credit(n int64) bool {
	from := s.acked
	for s.acked < n {
		r := s.at(s.acked)
		if r.hasResponse() {
			break
		}
		s.acked = min(n, r.end())
	}
	all := s.acked >= n
	if s.acked != from {
		s.progress()
	}
	return all
}

// progress resets the retry counts and the timer.
func (s *side) progress() {
	s.cursor = max(s.cursor, s.acked)
	s.told, s.overtaken = false, false
	if s.acked > s.held {
		s.heldAt = 0
	}
	if s.waitUntil != 0 && s.acked > s.unready { // the receiver is ready
		s.waitUntil = 0
	}
	s.retries, s.rnr = s.attr.RetryCount, s.attr.RNRRetry
	s.deadline = 0
	if s.acked < s.sent {
		s.deadline = s.o.now() + s.wait
	}
	s.retire()
}

// gap handles a response that has not arrived although a later one has: a sequence error (9.7.5.2.8).
func (s *side) gap() {
	if s.failed || s.overtaken || s.waiting() {
		return
	}
	s.o.naks++
	s.overtaken = true
	s.retry(s.acked)
}

// expire handles the expiry of the acknowledgement timer.
func (s *side) expire() {
	s.deadline = 0
	if s.acked == s.sent || s.waiting() {
		return
	}
	s.o.timeouts++
	s.told, s.overtaken, s.heldAt = false, false, 0
	s.retry(s.acked)
}

// retryHeld handles a delayed NAK whose gap still exists.
func (s *side) retryHeld() {
	s.heldAt = 0
	if s.acked == s.sent || s.waiting() {
		return
	}
	s.nakLimit.refund()
	s.o.naks++
	s.told = true
	s.retry(s.held)
}

// retry retransmits from packet n on, if a retry is left (9.7.5.2.8, 9.7.6.1.3).
func (s *side) retry(n int64) {
	if s.retries == 0 {
		s.enterError(ci.WCTimeoutRetryErr)
		return
	}
	s.retries--
	s.cursor = n
	s.deadline = 0 // it starts again with the first packet
}

// retire completes requests in order.
func (s *side) retire() {
	for !s.failed && s.head < len(s.reqs) {
		r := s.reqs[s.head]
		if r.wrong == localKey && s.acked == r.first && !s.waiting() {
			s.rejects = true
			return
		}
		if s.acked < r.end() || r.n == 0 && !r.ran && s.waiting() {
			return
		}
		s.head++
		if r.flags&ci.SendSignaled != 0 {
			s.wantSend = append(s.wantSend, wanted{id: r.id, r: r})
		}
	}
}

// enterError moves the queue pair to the error state (10.3.1.8). The oldest request completes with st, and all others
// are flushed.
func (s *side) enterError(st ci.WCStatus) {
	s.touch()
	s.failed, s.failedAt, s.failStatus = true, s.o.now(), st
	for ; s.head < len(s.reqs); s.head++ {
		r := s.reqs[s.head]
		s.wantSend = append(s.wantSend, wanted{id: r.id, status: st, either: st == ci.WCFlushErr && r.n == 0, r: r})
		st = ci.WCFlushErr
	}
	if s.in != nil {
		s.wantRecv = append(s.wantRecv, wanted{id: s.in.id, status: ci.WCFlushErr})
		s.in = nil
	}
	if !s.shared {
		for _, r := range s.rq.list {
			s.wantRecv = append(s.wantRecv, wanted{id: r.id, status: ci.WCFlushErr})
		}
		s.rq.list = nil
	}
	s.ackDue, s.answers = false, nil
	s.deadline, s.waitUntil = 0, 0
	s.gapAt, s.heldAt = 0, 0
	if s.nak != nil && s.nak.syn == wire.NAKPSNSequence || s.nak != nil && s.nak.syn.IsRNRNAK() {
		s.nak = nil
	}
}

// elapsed handles timers that expire at the present time. The oracle cannot see whether the engine has handled them,
// except by the results.
func (s *side) elapsed() {
	now := s.o.now()
	if s.failed {
		return
	}
	if s.waitUntil == now {
		s.waitUntil = 0
		s.retire()
	}
	s.failLocal()
	if s.failed {
		return
	}
	if len(s.wantSend) == 0 && s.heldAt == now {
		s.retryHeld()
	}
	if len(s.wantSend) == 0 && s.deadline == now {
		s.expire()
	}
}

// completed checks a completion of the send queue, and returns its request.
func (s *side) completed(wc *ci.WC) *request {
	if len(s.wantSend) == 0 {
		s.elapsed()
	}
	s.touch()
	if len(s.wantSend) == 0 {
		s.fail("request %d completes with %v, and nothing is to complete", wc.ID, wc.Status)
		return nil
	}
	w := s.wantSend[0]
	s.wantSend = s.wantSend[1:]
	if wc.ID != w.id || wc.Status != w.status && !(w.either && wc.Status == ci.WCSuccess) {
		s.fail("request %d completes with %v; it must be request %d with %v", wc.ID, wc.Status, w.id, w.status)
	}
	return w.r
}
