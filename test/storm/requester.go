package storm

import (
	"ciddk/ci"
	"ciddk/wire"
)

// post is told of a request before it is posted; posted, of the end of the list.
func (s *side) post(r *request) {
	s.touch()
	r.first = s.next
	switch r.op {
	case ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpCompareSwap, ci.OpFetchAdd:
		r.n = max((int64(r.size)+s.mtu-1)/s.mtu, 1)
	}
	s.next += r.n
	s.reqs = append(s.reqs, r)
	if s.dead {
		s.fail("request %d is posted to a dead queue pair: a fault of the storm", r.id)
	}
}

func (s *side) posted() {
	s.runLocal()
	s.retire()
}

// runLocal notes what the HCA has executed by itself: operations without packets whose turn it is, unless nothing has its turn now. An
// invalidation waits for all before it, of which something might be needed once more.
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

// at finds the request that a packet belongs to; nil if there is none.
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

// number makes a 24-bit PSN the number of a packet near one that is known.
func number(psn uint32, first ci.PSN, near int64) int64 {
	return near + int64(wire.PSNDiff(psn, wire.PSNAdd(uint32(first), int(near&wire.Mask24))))
}

// doom ends a queue pair whose next request its own HCA refuses. It finds out when it sends, which comes after what has arrived together.
func (s *side) doom() {
	if s.doomed && !s.dead {
		s.die(ci.WCLocalProtErr)
	}
}

func (s *side) waiting() bool { return s.waitUntil != 0 && s.o.now() <= s.waitUntil }

// sentRequest judges a packet of a request.
func (s *side) sentRequest(p *wire.Packet) {
	s.doom()
	now := s.o.now()
	n := number(p.BTH.PSN, s.attr.SQPSN, s.cursor)
	switch {
	case s.dead:
		s.fail("a dead queue pair sends a request, %v", p.BTH.Opcode)
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
		s.heed()
	}
	if s.deadline == now && s.acked < s.sent && (n != s.cursor || s.cursor == s.acked) {
		s.expire()
	}
	r := s.at(n)
	switch {
	case s.dead:
		s.fail("retries are exhausted, and packet %d is sent again", n)
		return
	case n != s.cursor:
		s.fail("packet %d is sent where it is %d's turn", n, s.cursor)
		return
	case r == nil:
		s.fail("packet %d is sent, and no request has it", n)
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

// checkRequest holds a packet against its request, of which it is number k. It gives the packets that it stands for: a READ's are those of
// its answer (9.7.2.1).
func (s *side) checkRequest(p *wire.Packet, r *request, k int64) int64 {
	left := int64(r.size) - k*s.mtu
	last := k == r.n-1
	ops := map[ci.SendOp]wire.Op{ci.OpSend: wire.OpSend, ci.OpWrite: wire.OpWrite, ci.OpRead: wire.OpReadRequest,
		ci.OpCompareSwap: wire.OpCompareSwap, ci.OpFetchAdd: wire.OpFetchAdd}
	start, end := k == 0, last
	if r.answered() {
		start, end = true, true
	}
	want, _ := wire.Make(wire.RC, ops[r.op], start, end, end && r.imms(), end && r.op == ci.OpSend && r.flags&ci.SendInvalidate != 0)
	span := int64(1)
	ok := p.BTH.Opcode == want && r.wrong != localKey
	switch r.op {
	case ci.OpSend, ci.OpWrite:
		ok = ok && int64(len(p.Payload)) == min(left, s.mtu) && (!last || p.BTH.AckReq && p.BTH.SE == (r.flags&ci.SendSolicited != 0)) &&
			(want.HasImm() == (last && r.imms())) && (!want.HasImm() || p.ImmDt.Imm == r.imm) && (!want.HasIETH() || p.IETH.RKey == uint32(r.inv))
		if r.op == ci.OpWrite && k == 0 {
			ok = ok && p.RETH == (wire.RETH{VA: r.remote.Addr, RKey: uint32(r.remote.RKey), DMALen: r.size})
		}
	case ci.OpRead:
		ask := int64(p.RETH.DMALen)
		span = max((ask+s.mtu-1)/s.mtu, 1)
		ok = ok && p.RETH.VA == r.remote.Addr+uint64(k*s.mtu) && p.RETH.RKey == uint32(r.remote.RKey) && (ask == left || ask < left && ask%s.mtu == 0 && ask > 0)
	default:
		x := wire.AtomicETH{VA: r.remote.Addr, RKey: uint32(r.remote.RKey), SwapAdd: r.atomic.Compare}
		if r.op == ci.OpCompareSwap {
			x.SwapAdd, x.Compare = r.atomic.Swap, r.atomic.Compare
		}
		ok = ok && p.AtomicETH == x
	}
	if !ok {
		s.fail("packet %d of request %d is %v with %d bytes, %+v %+v %+v: not what was posted", k, r.id, p.BTH.Opcode, len(p.Payload), p.RETH, p.AtomicETH, p.ImmDt)
	}
	return span
}

// checkStart judges whether a request may be sent for the first time: fences (10.8.3.3), and how many answers may be outstanding (9.7.2.1).
func (s *side) checkStart(r *request) {
	out := 0
	for i := s.head; i < len(s.reqs) && s.reqs[i] != r; i++ {
		if s.reqs[i].answered() && s.acked < s.reqs[i].end() {
			out++
		}
	}
	if out > 0 && r.flags&ci.SendFence != 0 {
		s.fail("request %d has a fence and is sent before %d answers have come", r.id, out)
	}
	if r.answered() && out >= int(s.attr.InitDepth) {
		s.fail("request %d is sent with %d answers outstanding, of %d", r.id, out, s.attr.InitDepth)
	}
}

// gotResponse is the requester's half of 9.7.5.1 and 9.7.5.2.
func (s *side) gotResponse(p *wire.Packet) {
	n := number(p.BTH.PSN, s.attr.SQPSN, s.acked)
	if n < s.acked || n >= s.sent {
		return // a ghost, or a duplicate
	}
	switch p.BTH.Opcode.Op() {
	case wire.OpAcknowledge:
		s.gotAck(n, p.AETH.Syndrome)
	default: // a READ's or an atomic's answer acknowledges what is before it
		if !s.credit(n) {
			s.gap()
			return
		}
		if s.dead {
			return
		}
		if r := s.at(n); !r.answered() || (r.op == ci.OpRead) != (p.BTH.Opcode.Op() == wire.OpReadResponse) {
			s.fail("packet %d is answered by %v: the responder has made that up", n, p.BTH.Opcode)
			return
		}
		s.acked = n + 1
		s.progress()
	}
}

func (s *side) gotAck(n int64, syn wire.Syndrome) {
	if syn.IsACK() {
		if !s.credit(n + 1) {
			s.gap()
		}
		return
	}
	if !s.credit(n) { // a NAK acknowledges what is before it
		s.gap()
		return
	}
	switch {
	case s.dead:
	case syn.IsRNRNAK():
		if s.waiting() {
			return
		}
		s.o.rnr++
		if s.rnr == 0 {
			s.die(ci.WCRNRRetryErr)
			return
		}
		if s.rnr != 7 {
			s.rnr--
		}
		s.cursor, s.told, s.overtaken, s.deadline, s.heldAt, s.unready = n, true, true, 0, 0, n
		s.waitUntil = s.o.now() + wire.RNRTimer(syn.Value())
	case syn == wire.NAKPSNSequence:
		switch {
		case s.told:
		case s.heeds.allow(s.o.now()):
			s.o.naks++
			s.told = true
			s.again(n)
		default:
			s.told, s.held, s.heldAt = true, n, s.o.now()+errorPatience
		}
	case syn == wire.NAKInvalidRequest:
		s.die(ci.WCRemInvalidReqErr)
	case syn == wire.NAKRemoteAccess:
		s.die(ci.WCRemAccessErr)
	case syn == wire.NAKRemoteOperation:
		s.die(ci.WCRemOpErr)
	}
}

// credit takes the packets before n as answered. It stops at a READ or an atomic, whose own answer has been overtaken then: false.
func (s *side) credit(n int64) bool {
	from := s.acked
	for s.acked < n {
		r := s.at(s.acked)
		if r.answered() {
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

// progress: the counts of retries and the timer begin anew.
func (s *side) progress() {
	s.cursor = max(s.cursor, s.acked)
	s.told, s.overtaken = false, false
	if s.acked > s.held {
		s.heldAt = 0
	}
	if s.waitUntil != 0 && s.acked > s.unready { // it was ready after all
		s.waitUntil = 0
	}
	s.retries, s.rnr = s.attr.RetryCount, s.attr.RNRRetry
	s.deadline = 0
	if s.acked < s.sent {
		s.deadline = s.o.now() + s.wait
	}
	s.retire()
}

// gap is an answer that has not come although a later one has: a sequence error (9.7.5.2.8).
func (s *side) gap() {
	if s.dead || s.overtaken || s.waiting() {
		return
	}
	s.o.naks++
	s.overtaken = true
	s.again(s.acked)
}

// expire is the end of the acknowledgement timer.
func (s *side) expire() {
	s.deadline = 0
	if s.acked == s.sent || s.waiting() {
		return
	}
	s.o.timeouts++
	s.told, s.overtaken, s.heldAt = false, false, 0
	s.again(s.acked)
}

// heed is a NAK that has waited, and still holds.
func (s *side) heed() {
	s.heldAt = 0
	if s.acked == s.sent || s.waiting() {
		return
	}
	s.heeds.refund()
	s.o.naks++
	s.told = true
	s.again(s.held)
}

// again is a retry from packet n on, if one is left (9.7.5.2.8, 9.7.6.1.3).
func (s *side) again(n int64) {
	if s.retries == 0 {
		s.die(ci.WCTimeoutRetryErr)
		return
	}
	s.retries--
	s.cursor = n
	s.deadline = 0 // it starts again with the first packet
}

// retire completes the oldest requests, in order.
func (s *side) retire() {
	for !s.dead && s.head < len(s.reqs) {
		r := s.reqs[s.head]
		if r.wrong == localKey && s.acked == r.first && !s.waiting() {
			s.doomed = true // it is its turn, and it cannot be sent
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

// die ends the queue pair: the oldest request has the status, unless that is WCFlushErr; everything else is flushed (10.3.1.8).
func (s *side) die(st ci.WCStatus) {
	s.touch()
	s.dead, s.diedAt, s.diedOf = true, s.o.now(), st
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
	s.ackDue, s.answers, s.deadline, s.waitUntil, s.gapAt, s.heldAt = false, nil, 0, 0, 0, 0
	if s.nak != nil && s.nak.syn == wire.NAKPSNSequence || s.nak != nil && s.nak.syn.IsRNRNAK() {
		s.nak = nil
	}
}

// elapsed lets timers of this very moment end: whether they have shows only by what comes of it.
func (s *side) elapsed() {
	now := s.o.now()
	if s.dead {
		return
	}
	if s.waitUntil == now {
		s.waitUntil = 0
		s.retire()
	}
	s.doom()
	if s.dead {
		return
	}
	if len(s.wantSend) == 0 && s.heldAt == now {
		s.heed()
	}
	if len(s.wantSend) == 0 && s.deadline == now {
		s.expire()
	}
}

// completed judges a completion of the send queue, and gives its request.
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
