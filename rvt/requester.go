package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// requester is the sending half of a QP: a window of requests that the engine has decoded and not completed yet.
//
//	head ≤ next ≤ tail    (indices grow for ever; the window is a ring)
//
// Requests before next have been sent whole, the one at next has been sent up to off packets, the ones from next on
// have not been sent, or are to be sent again.
type requester struct {
	*endpoint
	host requesterHost

	win              []sendEntry // length a power of two
	head, next, tail uint32
	off              uint32 // packets of the entry at next that are out
	psn              ci.PSN // of the next packet at (next, off)
	una              ci.PSN // oldest not acknowledged
	max              ci.PSN // after the newest ever sent
	newPSN           ci.PSN // first PSN for the next request that has none
	bytes            int64  // payload sent or requested since una: outstanding
	window           int64  // most of that
	reads            uint32 // requests unanswered that get an answer of their own, such as READs and atomics
	retries          uint8
	rnrRetries       uint8
	retried          sequenceErrors
	drainEvent       bool
	copies           bool // the last data had to be copied
	retryAt          time.Duration
	lateness
	rnrAt time.Duration // when the request at una that got an RNR NAK is sent again; 0: none waits
	naks  nakLimit
	nakAt time.Duration // when a delayed NAK of the request at una is acted on; 0: none
	pacing
}

const (
	minWindow = 4
	// psnWindow is the most PSNs that may be outstanding. Beyond half of the PSN space, old and new PSNs could not be
	// distinguished.
	psnWindow = 1<<23 - 1
	// maxReadPackets is the most PSNs that one READ request asks for. A longer READ is sent as several requests, one
	// after the other, and so is the rest of one after a loss.
	maxReadPackets = 1 << 21
	// packetWindow is the default of Hints.Packets.
	packetWindow = 256
)

// transmit sends what the window, the peer and the state allow.
func (r *requester) transmit(t *turn) {
	if r.service == wire.UD {
		r.transmitDatagrams(t)
		return
	}
	if r.window == 0 {
		r.openWindow()
	}
	before := r.psn
	for r.rnrAt == 0 && r.paceAt == 0 {
		if r.next == r.tail && (r.current() != ci.QPRTS || !r.decode()) {
			break
		}
		if t.left.isSpent() {
			t.more = true
			break
		}
		if r.copies && t.ahead.isUsed() {
			r.readAhead(t, r.next)
		}
		e := r.at(r.next)
		if e.done { // a local operation, seen again after a rewind
			r.next++
			continue
		}
		if !e.started {
			if r.current() != ci.QPRTS { // draining: what has not started waits
				break
			}
			if !r.begin(t, e) {
				break
			}
			if e.done { // a local operation
				r.next++
				r.retire(t)
				continue
			}
		}
		if !r.sendSome(t, e) {
			break
		}
		if r.off == e.npkts {
			r.next++
			r.off = 0
			if r.service == wire.UC {
				e.done = true
				r.retire(t)
			}
		}
	}
	if r.psn != before && r.retryAt == 0 && r.head != r.tail { // a local error may have ended what was sent
		r.retryAt = r.retryDeadline()
	}
	r.checkDrained()
}

// begin starts a request: it assigns PSNs, or executes a local operation. It reports false if the request must wait or
// has failed.
func (r *requester) begin(t *turn, e *sendEntry) bool {
	if e.w.Flags&ci.SendFence != 0 && r.reads > 0 {
		return false
	}
	bad := e.w.Bad
	if bad == ci.WCSuccess && e.w.Length > maxMessage {
		bad = ci.WCLocalLenErr
	}
	mtu := uint64(r.mtu)
	n := uint32(1)
	switch e.w.Op {
	case ci.OpSend, ci.OpWrite, ci.OpRead:
		if e.w.Length > mtu {
			n = uint32((e.w.Length + mtu - 1) / mtu)
		}
	case ci.OpCompareSwap, ci.OpFetchAdd:
		// The memory for the result is checked when the result arrives, as that of a READ is.
		if e.w.Length < 8 {
			bad = ci.WCLocalLenErr
		}
		e.w.Length = 8 // the rest of the list is not used
	case ci.OpAtomicWrite:
		if e.w.Length != ci.AtomicWriteSize {
			bad = ci.WCLocalLenErr
		}
	case ci.OpFlush:
		e.w.Length = 0
	default:
		return r.local(t, e, bad)
	}
	if e.w.Op != ci.OpSend && e.w.Op != ci.OpWrite && r.attr.InitDepth == 0 {
		bad = ci.WCLocalOpErr // could never be sent
	}
	if bad != ci.WCSuccess {
		r.failAt(t, e, bad)
		return false
	}
	e.first, e.npkts, e.started = r.newPSN, n, true
	e.chunk = r.readChunk()
	r.newPSN = psnAdd(r.newPSN, n)
	r.psn, r.off = e.first, 0
	return true
}

// reset discards all requests.
func (r *requester) reset() { *r = requester{endpoint: r.endpoint, host: r.host} }
