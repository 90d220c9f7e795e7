package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// The requester's answers: acknowledgements, READ responses, atomic results (IBTA volume 1, 9.7.5 and 9.9.2).

// span is how many bytes packets [a, b) of a request carry, or ask for.
func (e *sendEntry) span(a, b, mtu uint32) int64 {
	return int64(min(uint64(b)*uint64(mtu), e.w.Length)) - int64(min(uint64(a)*uint64(mtu), e.w.Length))
}

// acknowledge takes everything before psn as received by the peer, and completes what that completes. It stops at a READ or atomic
// whose answer has not come, and reports false then if psn lies behind it: the answer is lost.
func (q *QP) acknowledge(r *run, psn ci.PSN) bool {
	s := &q.req
	una := s.una
	all := true
	for i := s.head; i != s.tail; i++ {
		e := s.at(i)
		if !e.started {
			break
		}
		if e.done {
			continue
		}
		// Everything before e is answered, so una lies in it. Distances are taken from una: less than 2^23 is outstanding, while a
		// message may be 2^23 packets long.
		more := psnDiff(psn, s.una)
		if more <= 0 {
			break
		}
		if e.w.Op != ci.OpSend && e.w.Op != ci.OpWrite {
			all = false
			break
		}
		from := uint32(psnDiff(s.una, e.first))
		to := min(from+uint32(more), e.npkts)
		s.bytes -= e.span(from, to, q.mtu)
		s.una = psnAdd(e.first, to)
		if to < e.npkts {
			break
		}
		e.done = true
	}
	if s.una != una {
		q.progressed()
	}
	q.retire(r)
	return all
}

// progressed notes that the peer has answered something new.
func (q *QP) progressed() {
	s := &q.req
	q.heard(1)
	if psnDiff(s.psn, s.una) < 0 { // what was being sent again has arrived after all
		q.skipTo(s.una)
	}
	s.bytes = max(s.bytes, 0)
	s.heeded = sequenceErrors{}
	if s.nakAt != 0 && psnDiff(s.una, s.nakPSN) > 0 {
		s.nakAt = 0 // nothing was missing where the NAK said so
	}
	if s.rnrAt != 0 && psnDiff(s.una, s.rnrPSN) > 0 {
		s.rnrAt = 0 // the receiver was ready after all: the NAK was overtaken or forged
	}
	s.retries, s.rnrRetries = q.attr.RetryCount, q.attr.RNRRetry
	s.retryAt, s.lateness = 0, lateness{}
	if s.una != s.max {
		s.retryAt = q.retryDeadline()
	}
	q.speedUp()
}

// skipTo moves the cursor forward to psn.
func (q *QP) skipTo(psn ci.PSN) {
	s := &q.req
	for ; s.next != s.tail; s.next++ {
		e := s.at(s.next)
		if !e.started {
			break
		}
		if d := uint32(psn-e.first) & psnMask; d < e.npkts { // psn is not before e; of two long messages together it may be 2^23 behind
			s.off, s.psn = d, psn
			return
		}
	}
	s.off, s.psn = 0, psn
}

// retire completes what is done at the head of the window.
func (q *QP) retire(r *run) {
	s := &q.req
	for s.head != s.next || s.head != s.tail && s.at(s.head).done {
		e := s.at(s.head)
		if !e.done {
			break
		}
		if s.head == s.next {
			s.next++
			s.off = 0
		}
		s.head++
		r.done++
		if e.w.Flags&ci.SendSignaled != 0 || q.flags&ci.SignalAll != 0 {
			q.sendCompletion(r, e, ci.WCSuccess)
		}
		e.w.AV, e.w.Ext, e.w.Inline = nil, nil, nil
	}
	q.checkDrained()
}

var wcOps = [...]ci.WCOp{ci.OpSend: ci.WCSend, ci.OpWrite: ci.WCWrite, ci.OpRead: ci.WCRead, ci.OpCompareSwap: ci.WCCompareSwap,
	ci.OpFetchAdd: ci.WCFetchAdd, ci.OpLSO: ci.WCLSO, ci.OpNop: ci.WCNop, ci.OpLocalInv: ci.WCLocalInv, ci.OpFastReg: ci.WCFastReg,
	ci.OpBindMW: ci.WCBindMW}

func (q *QP) sendCompletion(r *run, e *sendEntry, st ci.WCStatus) {
	wc := r.complete(q.sendCQ, false)
	wc.ID, wc.Status = e.w.ID, st
	if int(e.w.Op) < len(wcOps) {
		wc.Op = wcOps[e.w.Op]
	}
	if st == ci.WCSuccess && e.npkts > 0 {
		wc.Length = uint32(e.w.Length)
	}
}

// answer takes a response packet.
func (q *QP) answer(r *run, p *Packet) {
	s := &q.req
	if psnDiff(p.PSN, s.max) > farPSN || psnDiff(p.PSN, s.una) < -farPSN {
		q.seeFarPSN(p)
	}
	if psnDiff(p.PSN, s.max) >= 0 || s.una == s.max {
		q.hca.count.add(DropStale, 1)
		return
	}
	switch p.Op {
	case wire.OpAcknowledge:
		q.ack(r, p)
	case wire.OpReadResponse:
		q.readResponse(r, p)
	case wire.OpAtomicAcknowledge:
		q.atomicResponse(r, p)
	default:
		q.hca.count.add(DropService, 1)
	}
}

// ack takes an ACK, RNR NAK or NAK.
func (q *QP) ack(r *run, p *Packet) {
	s := &q.req
	syn := p.Syndrome
	if syn.IsACK() {
		if psnDiff(p.PSN, s.una) < 0 {
			q.hca.count.add(DropStale, 1)
			return
		}
		if !q.acknowledge(r, psnAdd(p.PSN, 1)) {
			q.lost(r)
		}
		return
	}
	if psnDiff(p.PSN, s.una) < 0 { // of something that has been answered since
		q.hca.count.add(DropStale, 1)
		return
	}
	if !q.acknowledge(r, p.PSN) {
		q.lost(r)
		return
	}
	switch {
	case syn.IsRNRNAK():
		q.heard(1)
		if s.rnrAt != 0 { // waiting already: the NAK or its request came twice
			q.hca.count.add(DropStale, 1)
			return
		}
		q.hca.count.add(CountRNRRetry, 1)
		if s.rnrRetries == 0 {
			q.sendError(r, ci.WCRNRRetryErr)
			return
		}
		if s.rnrRetries != 7 { // 7: for ever
			s.rnrRetries--
		}
		q.rewind(p.PSN)
		s.heeded = sequenceErrors{nak: true, implied: true} // the responder has not got further: they are old
		s.nakAt = 0
		s.rnrPSN = p.PSN
		s.rnrAt = q.deadline(wire.RNRTimer(syn.Value()))
	case syn.IsNAK():
		switch syn {
		case wire.NAKPSNSequence:
			q.hca.count.add(CountSeqRetry, 1)
			q.sequenceNAK(r, p.PSN)
		case wire.NAKInvalidRequest:
			q.sendError(r, ci.WCRemInvalidReqErr)
		case wire.NAKRemoteAccess:
			q.sendError(r, ci.WCRemAccessErr)
		case wire.NAKRemoteOperation:
			q.sendError(r, ci.WCRemOpErr)
		default:
			q.sendError(r, ci.WCBadRespErr)
		}
	default:
		q.hca.count.add(DropResponse, 1)
	}
}

// lost asks again for the oldest answer: a later one has overtaken it (an implied NAK, IBTA volume 1, 9.7.5.2.8).
func (q *QP) lost(r *run) {
	s := &q.req
	if s.heeded.implied || s.rnrAt != 0 {
		return
	}
	q.hca.count.add(CountSeqRetry, 1)
	if q.spendRetry(r) {
		s.heeded.implied = true
		q.rewind(s.una)
		q.slowDown()
	}
}

// expected is the request that a response with this PSN answers: the oldest one, when everything before it has been acknowledged.
func (q *QP) expected(r *run, psn ci.PSN) *sendEntry {
	s := &q.req
	if psnDiff(psn, s.una) < 0 {
		q.hca.count.add(DropResponse, 1)
		return nil
	}
	if !q.acknowledge(r, psn) || s.una != psn {
		q.hca.count.add(DropSequence, 1)
		q.lost(r)
		return nil
	}
	if s.head == s.tail {
		q.hca.count.add(DropResponse, 1)
		return nil
	}
	return s.at(s.head)
}

// readResponse places data of a READ.
func (q *QP) readResponse(r *run, p *Packet) {
	s := &q.req
	if old := psnDiff(s.una, p.PSN); old > 0 && uint32(old) < p.N { // the beginning of a train has come before
		q.hca.count.add(DropDuplicate, int(old))
		p.trim(uint32(old))
	}
	e := q.expected(r, p.PSN)
	if e == nil {
		return
	}
	if e.w.Op != ci.OpRead || !e.started {
		q.sendError(r, ci.WCBadRespErr)
		return
	}
	off := uint64(e.got) * uint64(q.mtu)
	last := e.got+p.N == e.npkts
	want := uint64(p.N) * uint64(q.mtu)
	if p.N > uint32(psnDiff(s.max, s.una)) || e.got+p.N > e.npkts {
		q.sendError(r, ci.WCBadRespErr)
		return
	}
	if last {
		want = e.w.Length - off
	}
	if uint64(p.Len) != want || !e.inPlace(p) {
		q.sendError(r, ci.WCBadRespErr)
		return
	}
	if st := r.scatter(q, q.pd, e.w.SGL, off, p.Payload, p.Len); st != placed {
		q.sendError(r, ci.WCLocalProtErr)
		return
	}
	e.got += p.N
	s.una = psnAdd(s.una, p.N)
	s.bytes -= int64(p.Len)
	if p.End && s.reads > 0 {
		s.reads--
	}
	e.done = last
	q.progressed()
	q.retire(r)
}

// inPlace tells whether the opcodes of the READ response that is due are right (IBTA volume 1, 9.7.6): each request was for the rest of a
// chunk, so an answer ends where its chunk does and nowhere else, and it does not begin with MIDDLE or LAST at the head of one. Inside a
// chunk it may begin anew: what was asked for again is answered from there.
func (e *sendEntry) inPlace(p *Packet) bool {
	after := e.got + p.N
	end := after == e.npkts || after%e.chunk == 0
	return p.End == end && (p.Start || e.got%e.chunk != 0)
}

// atomicResponse places the original value.
func (q *QP) atomicResponse(r *run, p *Packet) {
	s := &q.req
	e := q.expected(r, p.PSN)
	if e == nil {
		return
	}
	if e.w.Op != ci.OpCompareSwap && e.w.Op != ci.OpFetchAdd || !e.started {
		q.sendError(r, ci.WCBadRespErr)
		return
	}
	if r.scatter64(q, e.w.SGL, p.Swap) != placed {
		q.sendError(r, ci.WCLocalProtErr)
		return
	}
	s.una = psnAdd(s.una, 1)
	if s.reads > 0 {
		s.reads--
	}
	e.done = true
	q.progressed()
	q.retire(r)
}
