package rvt

import (
	"ciddk/ci"
	"ciddk/wire"
)

// The requester's answers: acknowledgements, READ responses, atomic results (IBTA volume 1, 9.7.5 and 9.9.2).

// answer takes a response packet.
func (r *requester) answer(t *turn, p *Packet) {
	if psnDiff(p.PSN, r.max) > farPSN || psnDiff(p.PSN, r.una) < -farPSN {
		r.seeFarPSN(p)
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

// ack takes an ACK, RNR NAK or NAK.
func (r *requester) ack(t *turn, p *Packet) {
	syn := p.Syndrome
	if syn.IsACK() {
		if psnDiff(p.PSN, r.una) < 0 {
			r.dev.count.add(DropStale, 1)
			return
		}
		if !r.acknowledge(t, psnAdd(p.PSN, 1)) {
			r.lost(t)
		}
		return
	}
	if psnDiff(p.PSN, r.una) < 0 { // of something that has been answered since
		r.dev.count.add(DropStale, 1)
		return
	}
	if !r.acknowledge(t, p.PSN) {
		r.lost(t)
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
		r.rewind(p.PSN)
		r.heeded = sequenceErrors{nak: true, implied: true} // the responder has not got further: they are old
		r.nakAt = 0
		r.rnrPSN = p.PSN
		r.rnrAt = r.deadline(wire.RNRTimer(syn.Value()))
	case syn.IsNAK():
		switch syn {
		case wire.NAKPSNSequence:
			r.dev.count.add(CountSeqRetry, 1)
			r.sequenceNAK(t, p.PSN)
		case wire.NAKInvalidRequest:
			r.sendError(t, ci.WCRemInvalidReqErr)
		case wire.NAKRemoteAccess:
			r.sendError(t, ci.WCRemAccessErr)
		case wire.NAKRemoteOperation:
			r.sendError(t, ci.WCRemOpErr)
		default:
			r.sendError(t, ci.WCBadRespErr)
		}
	default:
		r.dev.count.add(DropResponse, 1)
	}
}

// acknowledge takes everything before psn as received by the peer, and completes what that completes. It stops at a
// READ or atomic whose answer has not come, and reports false then if psn lies behind it: the answer is lost.
func (r *requester) acknowledge(t *turn, psn ci.PSN) bool {
	una := r.una
	all := true
	for i := r.head; i != r.tail; i++ {
		e := r.at(i)
		if !e.started {
			break
		}
		if e.done {
			continue
		}
		// Everything before e is answered, so una lies in it. Distances are taken from una: less than 2^23 is
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

// progressed notes that the peer has answered something new.
func (r *requester) progressed() {
	r.heard(1)
	if psnDiff(r.psn, r.una) < 0 { // what was being sent again has arrived after all
		r.skipTo(r.una)
	}
	r.bytes = max(r.bytes, 0)
	r.heeded = sequenceErrors{}
	if r.nakAt != 0 && psnDiff(r.una, r.nakPSN) > 0 {
		r.nakAt = 0 // nothing was missing where the NAK said so
	}
	if r.rnrAt != 0 && psnDiff(r.una, r.rnrPSN) > 0 {
		r.rnrAt = 0 // the receiver was ready after all: the NAK was overtaken or forged
	}
	r.retries, r.rnrRetries = r.attr.RetryCount, r.attr.RNRRetry
	r.retryAt, r.lateness = 0, lateness{}
	if r.una != r.max {
		r.retryAt = r.retryDeadline()
	}
	r.speedUp()
}

// expected is the request that a response with this PSN answers: the oldest one, when everything before it has been
// acknowledged.
func (r *requester) expected(t *turn, psn ci.PSN) *sendEntry {
	if psnDiff(psn, r.una) < 0 {
		r.dev.count.add(DropResponse, 1)
		return nil
	}
	if !r.acknowledge(t, psn) || r.una != psn {
		r.dev.count.add(DropSequence, 1)
		r.lost(t)
		return nil
	}
	if r.head == r.tail {
		r.dev.count.add(DropResponse, 1)
		return nil
	}
	return r.at(r.head)
}

// readResponse places data of a READ.
func (r *requester) readResponse(t *turn, p *Packet) {
	if old := psnDiff(r.una, p.PSN); old > 0 && uint32(old) < p.N { // the beginning of a train has come before
		r.dev.count.add(DropDuplicate, int(old))
		p.trim(uint32(old))
	}
	e := r.expected(t, p.PSN)
	if e == nil {
		return
	}
	if e.w.Op != ci.OpRead || !e.started {
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
	if last {
		want = e.w.Length - off
	}
	if uint64(p.Len) != want || !e.inPlace(p) {
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

// inPlace reports whether the opcodes of the READ response that is due are right (IBTA volume 1, 9.7.6): each request was
// for the rest of a chunk, so an answer ends where its chunk does and nowhere else, and it does not begin with MIDDLE
// or LAST at the head of one. Inside a chunk it may begin anew: what was asked for again is answered from there.
func (e *sendEntry) inPlace(p *Packet) bool {
	after := e.got + p.N
	end := after == e.npkts || after%e.chunk == 0
	return p.End == end && (p.Start || e.got%e.chunk != 0)
}

// atomicResponse places the original value.
func (r *requester) atomicResponse(t *turn, p *Packet) {
	e := r.expected(t, p.PSN)
	if e == nil {
		return
	}
	if e.w.Op != ci.OpCompareSwap && e.w.Op != ci.OpFetchAdd || !e.started {
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
