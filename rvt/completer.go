package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// The responses that a requester gets: acknowledgements, READ responses and atomic results (IBTA volume 1, 9.7.5 and
// 9.9.2).

// answer executes a response packet.
func (r *requester) answer(t *turn, p *Packet) {
	if psnDiff(p.PSN, r.max) > farPSN || psnDiff(p.PSN, r.una) < -farPSN {
		r.countFarPSN(p)
	}
	if psnDiff(p.PSN, r.max) >= 0 || r.una == r.max {
		r.dev.count.add(DropStale, 1)
		return
	}
	switch p.Op {
	case wire.OpAcknowledge:
		r.ack(t, p)
	case wire.OpReadResponse:
		r.readResponse(t, p)
	case wire.OpAtomicAcknowledge:
		r.atomicResponse(t, p)
	default:
		r.dev.count.add(DropService, 1)
	}
}

// ack executes an ACK, an RNR NAK or a NAK.
func (r *requester) ack(t *turn, p *Packet) {
	syn := p.Syndrome
	if !syn.IsACK() && !syn.IsRNRNAK() && !syn.IsNAK() { // of a reserved class: it acknowledges nothing
		r.dev.count.add(DropResponse, 1)
		return
	}
	if psnDiff(p.PSN, r.una) < 0 { // it has been acknowledged since
		r.dev.count.add(DropStale, 1)
		return
	}
	if syn.IsACK() {
		if !r.acknowledge(t, psnAdd(p.PSN, 1)) {
			r.responseLost(t)
		}
		return
	}
	if !r.acknowledge(t, p.PSN) {
		r.responseLost(t)
		return
	}
	switch {
	case syn.IsRNRNAK():
		r.heard(1)
		if r.rnrAt != 0 { // waiting already: the NAK or its request came twice
			r.dev.count.add(DropStale, 1)
			return
		}
		r.dev.count.add(CountRNRRetry, 1)
		if r.rnrRetries == 0 {
			r.sendError(t, ci.WCRNRRetryErr)
			return
		}
		if r.rnrRetries != 7 { // 7: for ever
			r.rnrRetries--
		}
		r.rewind(r.una)
		r.retried = sequenceErrors{nak: true,
			implied: true} // the responder has executed no later request: such errors are old
		r.nakAt = 0
		r.rnrAt = r.deadline(wire.RNRTimer(syn.Value()))
	default:
		switch syn {
		case wire.NAKPSNSequence:
			r.dev.count.add(CountSeqRetry, 1)
			r.sequenceNAK(t)
		case wire.NAKInvalidRequest:
			r.sendError(t, ci.WCRemInvalidReqErr)
		case wire.NAKRemoteAccess:
			r.sendError(t, ci.WCRemAccessErr)
		case wire.NAKRemoteOperation:
			r.sendError(t, ci.WCRemOpErr)
		default:
			r.sendError(t, ci.WCBadRespErr)
		}
	}
}

// acknowledge marks everything before psn as received by the peer and completes the requests that this covers. It stops
// at a READ or atomic whose response has not come. It reports false if psn lies behind that request: its response is
// lost then.
func (r *requester) acknowledge(t *turn, psn ci.PSN) bool {
	una := r.una
	all := true
	for i := r.head; i != r.tail; i++ {
		e := r.at(i) // psn is at most r.max, so that the loop ends before a request that has not started
		if e.done {
			continue
		}
		// Everything before e is complete, so una lies in e. Distances are taken from una: less than 2^23 PSNs are
		// outstanding, while a message may be 2^23 packets long.
		more := psnDiff(psn, r.una)
		if more <= 0 {
			break
		}
		if e.w.Op != ci.OpSend && e.w.Op != ci.OpWrite {
			all = false
			break
		}
		from := uint32(psnDiff(r.una, e.first))
		to := min(from+uint32(more), e.npkts)
		r.bytes -= e.span(from, to, r.mtu)
		r.una = psnAdd(e.first, to)
		if to < e.npkts {
			break
		}
		e.done = true
	}
	if r.una != una {
		r.progressed()
	}
	r.retire(t)
	return all
}

// progressed restores the retries and the timer, because the peer has acknowledged something new.
func (r *requester) progressed() {
	r.heard(1)
	if psnDiff(r.psn, r.una) < 0 { // what was being sent again has arrived after all
		r.skipTo(r.una)
	}
	r.bytes = max(r.bytes, 0)
	r.retried = sequenceErrors{}
	// What waited for a time was the request at una: nothing was missing there, or the receiver was ready after all.
	r.nakAt, r.rnrAt = 0, 0
	r.retries, r.rnrRetries = r.attr.RetryCount, r.attr.RNRRetry
	r.retryAt, r.lateness = 0, lateness{}
	if r.una != r.max {
		r.retryAt = r.retryDeadline()
	}
	r.speedUp()
}

// expected returns the request that a response with this PSN answers: the oldest one, if everything before it is
// acknowledged. It returns nil and counts the packet if there is none.
func (r *requester) expected(t *turn, psn ci.PSN) *sendEntry {
	if psnDiff(psn, r.una) < 0 {
		r.dev.count.add(DropResponse, 1)
		return nil
	}
	if !r.acknowledge(t, psn) {
		r.dev.count.add(DropSequence, 1)
		r.responseLost(t)
		return nil
	}
	return r.at(r.head)
}

// readResponse stores the data of a READ response. One without data answers an ATOMIC WRITE and a FLUSH.
func (r *requester) readResponse(t *turn, p *Packet) {
	if old := psnDiff(r.una, p.PSN); old > 0 && uint32(old) < p.N { // the beginning of a train has come before
		r.dev.count.add(DropDuplicate, int(old))
		p.trim(uint32(old))
	}
	e := r.expected(t, p.PSN)
	if e == nil {
		return
	}
	if e.w.Op != ci.OpRead && e.w.Op != ci.OpAtomicWrite && e.w.Op != ci.OpFlush || !p.Syndrome.IsACK() {
		r.sendError(t, ci.WCBadRespErr)
		return
	}
	off := uint64(e.got) * uint64(r.mtu)
	last := e.got+p.N == e.npkts
	want := uint64(p.N) * uint64(r.mtu)
	if p.N > uint32(psnDiff(r.max, r.una)) || e.got+p.N > e.npkts {
		r.sendError(t, ci.WCBadRespErr)
		return
	}
	switch {
	case e.w.Op != ci.OpRead:
		want = 0
	case last:
		want = e.w.Length - off
	}
	if uint64(p.Len) != want || !e.isInPlace(p) {
		r.sendError(t, ci.WCBadRespErr)
		return
	}
	if st := t.scatter(r.pd, e.w.SGL, off, p.Payload, p.Len); st != placed {
		r.sendError(t, ci.WCLocalProtErr)
		return
	}
	e.got += p.N
	r.una = psnAdd(r.una, p.N)
	r.bytes -= int64(p.Len)
	if p.End && r.reads > 0 {
		r.reads--
	}
	e.done = last
	r.progressed()
	r.retire(t)
}

// isInPlace reports whether the opcodes of a READ response are right (IBTA volume 1, 9.7.6). Each READ request asks for
// the rest of a chunk, so a response ends where its chunk ends and nowhere else. At the head of a chunk it must begin
// with FIRST or ONLY. Inside a chunk it may begin anew, since a repeated request is answered from there.
func (e *sendEntry) isInPlace(p *Packet) bool {
	after := e.got + p.N
	end := after == e.npkts || after%e.chunk == 0
	return p.End == end && (p.Start || e.got%e.chunk != 0)
}

// atomicResponse stores the original value.
func (r *requester) atomicResponse(t *turn, p *Packet) {
	e := r.expected(t, p.PSN)
	if e == nil {
		return
	}
	if e.w.Op != ci.OpCompareSwap && e.w.Op != ci.OpFetchAdd || !p.Syndrome.IsACK() {
		r.sendError(t, ci.WCBadRespErr)
		return
	}
	if t.scatter64(e.w.SGL, p.Swap) != placed {
		r.sendError(t, ci.WCLocalProtErr)
		return
	}
	r.una = psnAdd(r.una, 1)
	if r.reads > 0 {
		r.reads--
	}
	e.done = true
	r.progressed()
	r.retire(t)
}
