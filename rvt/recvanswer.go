package rvt

import (
	"errors"
	"math/bits"
	"slices"

	"ciddk/ci"
	"ciddk/wire"
)

// response is the answer to a READ, an atomic, an ATOMIC WRITE or a FLUSH. The latter two get the answer of a READ of
// no bytes (IBTA volume 1, release 1.6, annex A19).
type response struct {
	op     wire.Op // of the request
	again  bool    // of a duplicate request
	psn    ci.PSN  // next to send
	first  ci.PSN  // of the request
	n      uint32  // packets of a READ's answer to send from psn on
	npkts  uint32  // packets of the whole answer to this request
	va     uint64  // of first
	rkey   ci.Key
	length uint32
	orig   uint64
	msn    uint32
}

// resources returns the number of READs and atomics that the responder has room for: RespRes, rounded up to a power of
// two. The requester of Linux's Soft-RoCE rounds its initiator depth up, and sends as many.
func (r *responder) resources() int { return roundedUp(r.attr.RespRes) }

func roundedUp(n uint8) int {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len8(n-1)
}

// acceptRead validates a READ and queues its answer.
func (r *responder) acceptRead(t *turn, p *Packet) outcome {
	switch {
	case r.in:
		return invalid
	case r.attr.Access&ci.RemoteRead == 0:
		return unsupported
	case p.DMALen > maxMessage, r.resources() <= r.fresh():
		return invalid
	}
	// An invalid READ is rejected here, so that nothing behind it is executed. The memory is checked again for each
	// train of the answer.
	if p.DMALen > 0 {
		if _, ok := t.holds.remote(&r.dev.keys, r.endpoint, p.RKey, p.VA, uint64(p.DMALen), ci.RemoteRead); !ok {
			return access
		}
	}
	n := r.packets(p.DMALen)
	r.msn = (r.msn + 1) & psnMask
	r.remember(response{op: p.Op, psn: r.psn, first: r.psn, n: n, npkts: n, va: p.VA, rkey: p.RKey, length: p.DMALen,
		msn: r.msn})
	r.psn = psnAdd(r.psn, n)
	t.executes(CountReads)
	return placed
}

// acceptAtomic executes an atomic and queues its answer, which is kept for duplicates.
func (r *responder) acceptAtomic(t *turn, p *Packet) outcome {
	switch {
	case r.in, r.resources() <= r.fresh(), p.VA%8 != 0:
		return invalid
	case r.attr.Access&ci.RemoteAtomic == 0:
		return unsupported
	}
	m, ok := t.holds.remote(&r.dev.keys, r.endpoint, p.RKey, p.VA, 8, ci.RemoteAtomic)
	if !ok {
		return access
	}
	orig, err := m.atomic(p.Op, p.Swap, p.Compare)
	if v := outcomeOf(err); v != placed {
		return v
	}
	r.msn = (r.msn + 1) & psnMask
	r.remember(response{op: p.Op, psn: r.psn, first: r.psn, npkts: 1, orig: orig, msn: r.msn})
	r.psn = psnAdd(r.psn, 1)
	t.executes(CountAtomics)
	return placed
}

// outcomeOf returns the outcome of an operation on a word of memory.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return placed
	case errors.Is(err, errMisaligned): // a zero-based region or window begins at any byte
		return invalid
	}
	return access
}

// remember queues an answer and keeps it for duplicates, in the place of the oldest one.
func (r *responder) remember(a response) {
	r.out = append(r.out, a)
	r.ackDue = false // the answer acknowledges everything before it
	if len(r.hist) < r.resources() {
		if r.hpos > 0 { // they have grown: the oldest comes first again
			r.hist = append(slices.Clone(r.hist[r.hpos:]), r.hist[:r.hpos]...)
			r.hpos = 0
		}
		r.hist = append(r.hist, a)
		return
	}
	r.hist[r.hpos] = a
	r.hpos = (r.hpos + 1) % len(r.hist)
}

// duplicate answers a repeated request (IBTA volume 1, 9.7.5.1.2).
func (r *responder) duplicate(_ *turn, p *Packet) {
	r.dev.count.add(DropDuplicate, int(p.N))
	r.refilling()
	switch p.Op {
	case wire.OpSend, wire.OpWrite:
		r.ackDue = true
		return
	}
	if len(r.out) > 2*r.resources() {
		return // it will be asked for again
	}
	// From the newest on: PSNs repeat after 2^24 packets, which may be few requests.
	for i := range r.hist {
		a := r.hist[(r.hpos+len(r.hist)-1-i)%len(r.hist)]
		d := psnDiff(p.PSN, a.first)
		if a.op != p.Op || d < 0 || d >= int32(a.npkts) {
			continue
		}
		if a.op == wire.OpReadRequest {
			skip := uint64(d) * uint64(r.mtu)
			n := r.packets(p.DMALen)
			if p.RKey != a.rkey || p.VA != a.va+skip || skip+uint64(p.DMALen) > uint64(a.length) {
				return
			}
			a.first, a.psn, a.va = p.PSN, p.PSN, p.VA
			a.length, a.n, a.npkts = p.DMALen, n, n
		}
		a.again = true
		r.out = append(r.out, a)
		return
	}
}

// fresh returns the number of queued answers to new requests.
func (r *responder) fresh() int {
	n := 0
	for i := range r.out {
		if !r.out[i].again {
			n++
		}
	}
	return n
}

// sendResponse sends one answer, or as much of it as the quantum allows. It reports false if the QP went to Error over
// it.
func (r *responder) sendResponse(t *turn, a *response) bool {
	if a.op == wire.OpCompareSwap || a.op == wire.OpFetchAdd {
		p := t.packet()
		p.Op, p.Start, p.End = wire.OpAtomicAcknowledge, true, true
		p.Syndrome, p.MSN = wire.ACK(wire.CreditsInvalid), a.msn
		p.PSN, p.Swap = a.psn, a.orig
		t.left.spend(1, 8)
		return true
	}
	most := uint32(max(r.port.hints.MaxTrain, int(r.mtu))) / r.mtu
	for a.n > 0 && !t.left.isSpent() {
		done := a.npkts - a.n
		n := t.left.train(min(a.n, most), r.mtu)
		off := uint64(done) * uint64(r.mtu)
		size := uint32(min(uint64(a.length)-off, uint64(n)*uint64(r.mtu)))
		t.room(16)
		p := t.packet()
		first := t.nsegs
		if size > 0 {
			m, ok := t.holds.remote(&r.dev.keys, r.endpoint, a.rkey, a.va+off, uint64(size), ci.RemoteRead)
			if !ok {
				t.unpacket()
				r.readFault(t, a)
				return false
			}
			if !t.view(m, size) {
				t.unpacket()
				t.nsegs = first
				switch {
				case t.npkts > 0:
					t.send()
				case most > 1:
					most = max(min(most/2, batchBuffer/r.mtu), 1)
				case !t.flat:
					t.flat = true // as in fill
				default:
					r.readFault(t, a)
					return false
				}
				continue
			}
		}
		t.flat = false
		p.Op, p.Start, p.End = wire.OpReadResponse, done == 0, n == a.n
		p.Syndrome, p.MSN = wire.ACK(wire.CreditsInvalid), a.msn
		p.PSN, p.N = a.psn, n
		p.Len, p.Payload = size, t.segs[first:t.nsegs]
		a.psn = psnAdd(a.psn, n)
		a.n -= n
		t.left.spend(n, size)
	}
	return true
}

// readFault rejects a READ whose memory has become invalid, at the packet that would have carried it. Requests behind
// it are not acknowledged, since its answer is still in out.
func (r *responder) readFault(t *turn, a *response) {
	r.dev.count.add(CountInvalidNak, 1)
	r.sendAck(t, wire.NAKRemoteAccess, a.psn)
	r.notify.Event(ci.Event{Type: ci.EventWQAccessError})
	r.host.toError(t)
}
