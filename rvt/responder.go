package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// responder is the receiving half of a connected QP (IBTA volume 1, 9.7.4 to 9.7.8).
type responder struct {
	*endpoint
	host responderHost

	psn ci.PSN // expected next
	msn uint32

	progress
	rw   RecvWork
	have bool // rw is taken

	established bool // a packet has come (QPComm)
	// a gap has been reported, or no receive was posted: later requests are dropped until the expected one comes
	silent bool
	failed bool // a request has been refused: the QP goes to Error when the answers before it and the NAK are sent
	skip   bool // UC: inside a message of which a packet is missing

	ackDue bool
	unack  uint32 // packets since the last acknowledgement
	nak    wire.Syndrome
	nakPSN ci.PSN
	nakDue bool
	naks   nakLimit
	gapAt  time.Duration // when a gap that is still there is reported; 0: none waits

	out []response // answers to be sent, in order
	// those of executed requests, for duplicates: the newest, as many as resources, the oldest at hpos
	hist []response
	hpos int
}

func (r *responder) start(psn ci.PSN) { r.psn = psn }

// establish raises EventQPComm for the first packet of the peer, which establishes a connection whose RTU was lost.
// That packet had the expected PSN or, of UC, was stored. Any other might come from a third party.
func (r *responder) establish() {
	if !r.established {
		r.established = true
		if r.current() == ci.QPRTR {
			r.notify.Event(ci.Event{Type: ci.EventQPComm})
		}
	}
}

// request handles a request of a reliable connection.
func (r *responder) request(t *turn, p *Packet) {
	if r.failed {
		r.dev.count.add(DropQPState, int(p.N))
		return
	}
	d := psnDiff(p.PSN, r.psn)
	if d > farPSN || d < -farPSN {
		r.countFarPSN(p)
	}
	if d > 0 {
		r.dev.count.add(DropSequence, int(p.N))
		r.gap()
		return
	}
	if d < 0 {
		if uint32(-d) < p.N && (p.Op == wire.OpSend || p.Op == wire.OpWrite) {
			r.dev.count.add(DropDuplicate, int(-d))
			p.trim(uint32(-d))
		} else {
			r.duplicate(t, p)
			return
		}
	}
	r.silent, r.gapAt = false, 0
	r.establish()
	r.conclude(t, p, r.execute(t, p))
}

// conclude acknowledges a request or rejects it, by its outcome.
func (r *responder) conclude(t *turn, p *Packet, v outcome) {
	if v == earlier {
		r.unwind(t)
		return
	}
	if v != placed && !r.settleLate(t) {
		return
	}
	switch v {
	case placed:
		r.heard(p.N)
		if p.Ack && (p.Op == wire.OpSend || p.Op == wire.OpWrite) { // a READ or atomic has an answer of its own
			r.ackDue = true
		}
		r.unack += p.N
	case notReady:
		r.dev.count.add(CountRNRNak, 1)
		r.silent = true
		r.setNak(wire.RNRNAK(r.attr.MinRNRTimer))
	case tooLong:
		r.refuse(t, wire.NAKInvalidRequest, ci.WCLocalLenErr, 0)
	case protection:
		r.refuse(t, wire.NAKRemoteOperation, ci.WCLocalProtErr, 0)
	case badWork:
		r.refuse(t, wire.NAKRemoteOperation, ci.WCLocalOpErr, 0)
	case access:
		r.refuse(t, wire.NAKRemoteAccess, ci.WCLocalAccessErr, ci.EventWQAccessError)
	case notInvalidated:
		// The message has arrived whole, so its sender gets an acknowledgement; only the receiver fails (IBTA volume 1,
		// 9.9.6.3, class J).
		r.refuse(t, wire.ACK(wire.CreditsInvalid), ci.WCRemInvalidReqErr, 0)
	case invalid, unsupported:
		r.refuse(t, wire.NAKInvalidRequest, ci.WCRemInvalidReqErr, ci.EventWQReqError)
	}
}

// refuse makes a fatal answer due, a NAK or the last acknowledgement, after which the QP goes to Error. A receive that
// the message has taken completes with st, and reports an access violation instead of event (IBTA volume 1, 11.6.3.2).
func (r *responder) refuse(t *turn, syn wire.Syndrome, st ci.WCStatus, event ci.EventType) {
	if r.setNak(syn); syn.IsACK() {
		r.nakPSN = psnAdd(r.psn, psnMask)
	} else {
		r.dev.count.add(CountInvalidNak, 1)
		if syn == wire.NAKRemoteAccess {
			r.dev.count.add(CountRecvAccess, 1)
		}
	}
	r.failed = true
	if r.have {
		r.recvError(t, st)
		if st == ci.WCLocalAccessErr {
			event = 0
		}
	}
	r.respond(t)
	if event != 0 { // after the NAK: the consumer may disconnect, and the peer learns of its failed request first
		r.notify.Event(ci.Event{Type: event})
	}
}

// settleLate executes the late stores of the packets before. If one fails, its packet fails, and those behind it have
// not been received.
func (r *responder) settleLate(t *turn) bool {
	if t.settle() {
		return true
	}
	r.unwind(t)
	return false
}

// unwind goes back to the packet of the store that has failed. Receives that later messages have taken are flushed, as
// the QP is in Error.
func (r *responder) unwind(t *turn) {
	f := t.late.failed
	list := t.wcs[f.wcs:t.nwcs]
	for i := range list {
		list[i].wc.Status, list[i].solicited = ci.WCFlushErr, true
	}
	has := f.owns && len(list) > 0 // else the receive of the packet's message is the one in progress, if it has one
	if has {
		if list[0].wc.Status = ci.WCLocalProtErr; f.fails == access {
			list[0].wc.Status = ci.WCLocalAccessErr
		}
	}
	if r.have && (has || !f.owns) {
		r.recvError(t, ci.WCFlushErr)
	}
	r.psn, r.msn = f.psn, f.msn
	switch {
	case r.service == wire.RC && has && f.fails == access: // the completion reports the violation, and no event
		r.refuse(t, wire.NAKRemoteAccess, ci.WCLocalAccessErr, 0)
	case r.service == wire.RC:
		r.conclude(t, nil, f.fails)
	case r.have:
		r.localRecvError(t, f.fails)
	default:
		r.host.toError(t)
	}
}

// execute executes the expected request, or as much of a train as possible, and moves the expected PSN over what is
// done.
func (r *responder) execute(t *turn, p *Packet) outcome {
	if p.Op == wire.OpSend || p.Op == wire.OpWrite {
		return r.messageRC(t, p)
	}
	if !t.settle() {
		return earlier
	}
	switch p.Op {
	case wire.OpReadRequest:
		return r.acceptRead(t, p)
	case wire.OpAtomicWrite:
		return r.acceptAtomicWrite(t, p)
	case wire.OpFlush:
		return r.acceptFlush(t, p)
	default:
		return r.acceptAtomic(t, p)
	}
}

// respond sends what is due, as far as the quantum allows: answers in order, then a NAK or the acknowledgement. When a
// poll drives the turn, the acknowledgement is deferred: it leaves behind the consumer's next post, or when the port
// has nothing more to receive.
func (r *responder) respond(t *turn) {
	if r.service != wire.RC {
		return
	}
	for len(r.out) > 0 {
		if t.left.isSpent() {
			t.more = true
			return // an acknowledgement must not overtake the answers
		}
		if !r.sendResponse(t, &r.out[0]) {
			return
		}
		if r.out[0].n > 0 {
			continue
		}
		r.out = append(r.out[:0], r.out[1:]...)
		r.unack = 0
	}
	if r.nakDue {
		r.nakDue = false
		r.sendAck(t, r.nak, r.nakPSN)
		r.lastAck(t) // of what came behind the gap's end in the same delivery
		if r.failed {
			r.host.toError(t)
		}
		return
	}
	switch {
	case !r.ackDue:
	case t.polled && r.unack < ackEvery:
		r.ackWaits.Store(true)
		r.host.deferAck()
	default:
		r.lastAck(t)
	}
}

// reset discards all messages and answers. The memory for the segments of a receive buffer is kept.
func (r *responder) reset() {
	sgl := r.rw.SGL[:0]
	*r = responder{endpoint: r.endpoint, host: r.host}
	r.rw.SGL = sgl
	r.taken = false
}
