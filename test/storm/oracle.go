package storm

import (
	"fmt"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/link/sim"
	"ciddk/wire"
)

// oracle predicts the completions and packets that must follow from posts and packets.
type oracle struct {
	now     func() time.Duration
	sides   map[endpoint]*side // sides of the present connections
	touched []*side            // sides with events since the last settle
	last    *side              // side that received the last packet
	err     error              // first violation
	frame   wire.Frame

	harmless, refused   uint64
	rnr, naks, timeouts uint64
}

// request is a request that was posted to a send queue.
type request struct {
	id     uint64
	op     ci.SendOp
	flags  ci.SendFlags
	imm    uint32
	inv    ci.Key
	size   uint32 // in bytes
	remote ci.Remote
	atomic ci.Atomic
	word   *uint64 // expected value of the word that an atomic changes
	wrong  wrong

	first, n int64  // number of its first packet since the connection began, and of its packets: 0 for local operations
	orig     uint64 // value before an atomic
	ran      bool   // executed, although requests before it are not complete
}

// wrong is the defect of a request that is invalid on purpose.
type wrong uint8

const (
	nothing    wrong = iota
	remoteKey        // the responder must reject the access
	misaligned       // an atomic at an odd address is an invalid request
	localKey         // the requester must reject it
)

// end returns the number of the packet after the last one of the request.
func (r *request) end() int64 { return r.first + r.n }

// hasResponse reports whether a response of its own completes the request, instead of an acknowledgement (9.7.5.1.4).
func (r *request) hasResponse() bool {
	return r.op == ci.OpRead || r.op == ci.OpCompareSwap || r.op == ci.OpFetchAdd
}

// imms reports whether the request has immediate data.
func (r *request) imms() bool { return r.flags&ci.SendImmediate != 0 }

// recv is a posted receive.
type recv struct {
	id   uint64
	room uint32
}

// recvQueue is a receive queue, or one that several sides share.
type recvQueue struct{ list []recv }

// wanted is a completion that is due.
type wanted struct {
	id     uint64
	status ci.WCStatus
	either bool // WCSuccess is valid, too: a local operation after the failure may have been executed before it
	r      *request
}

// side is the model of one end of a connection: a requester and a responder.
type side struct {
	o    *oracle
	name string
	attr ci.QPAttr // attributes that the consumer set
	mtu  int64
	wait time.Duration // acknowledgement timeout
	peer *side

	// The requester. Packets are numbered from 0, not modulo 2^24.
	reqs      []*request
	head      int   // first request that is not complete
	next      int64 // first packet of the next request
	cursor    int64 // next packet to send
	acked     int64 // packets before it are acknowledged
	sent      int64 // packets before it have been sent at least once
	retries   uint8
	rnr       uint8
	told      bool          // a NAK has caused a retry since the last progress or timeout
	overtaken bool          // a response that arrived before an earlier one has caused a retry since then
	deadline  time.Duration // expiry of the acknowledgement timer, or 0
	waitUntil time.Duration // after an RNR NAK, nothing may be sent before this time
	wantSend  []wanted
	unready   int64         // packet of the RNR NAK that set waitUntil
	nakLimit  errorLimit    // limit for NAKs
	heldAt    time.Duration // when a NAK beyond the limit takes effect, or 0
	held      int64         // packet of that NAK

	// The responder.
	expect   int64 // packet expected next
	exec     int   // request of the peer that it belongs to
	msn      uint32
	silent   bool          // a NAK has reported the gap
	nak      *nak          // NAK that is due
	gapLimit errorLimit    // limit for reported gaps
	gapAt    time.Duration // when a gap beyond the limit is reported, or 0
	ackDue   bool          // an acknowledgement is due
	answers  []span
	in       *recv // receive of the message in progress
	inBytes  uint32
	rq       *recvQueue
	shared   bool
	wantRecv []wanted

	rejects    bool // the next request has an invalid local key: see failLocal
	failed     bool // the queue pair is in the error state
	failedAt   time.Duration
	failStatus ci.WCStatus  // WCFlushErr: the cause was not one of its own requests
	trace      []traceEntry // last packets
	mark       bool         // in oracle.touched
}

// nak is a NAK that is due.
type nak struct {
	syn wire.Syndrome
	lo  int64 // its PSN is in the range from lo
	hi  int64 // to hi
}

// span is a range of response packets that are due.
type span struct{ next, end int64 }

// fail records the first violation.
func (s *side) fail(format string, args ...any) {
	if s.o.err != nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "at %v, %s: %s\n", s.o.now(), s.name, fmt.Sprintf(format, args...))
	fmt.Fprintf(&b, "requester: acknowledged %d, next %d, sent %d of %d packets; "+
		"%d retries and %d RNR retries left, NAK retried %t, gap retried %t, timer %v, waits until %v\n",
		s.acked, s.cursor, s.sent, s.next, s.retries, s.rnr, s.told, s.overtaken, s.deadline, s.waitUntil)
	fmt.Fprintf(&b, "responder: expects %d, gap reported %t; failed %t at %v with %v; "+
		"SQ PSN %#x, RQ PSN %#x, MTU %d, retry count %d, RNR retry %d\n",
		s.expect, s.silent, s.failed, s.failedAt, s.failStatus, s.attr.SQPSN, s.attr.RQPSN, s.mtu, s.attr.RetryCount,
		s.attr.RNRRetry)
	for i := s.head; i < len(s.reqs) && i < s.head+8; i++ {
		r := s.reqs[i]
		fmt.Fprintf(&b, "  request %d: op %d flags %#x, %d bytes, packets [%d, %d), wrong %d\n", r.id, r.op,
			r.flags, r.size,
			r.first, r.end(), r.wrong)
	}
	for _, x := range s.trace[max(0, len(s.trace)-40):] {
		fmt.Fprintf(&b, "  %12d ns  %-4s %-28v PSN %#06x  %#x %v", x.at, x.dir, x.op, x.psn, x.n, x.verdict)
		if x.flipped {
			b.WriteString(", dropped")
		}
		b.WriteByte('\n')
	}
	s.o.err = fmt.Errorf("%s", b.String())
}

// touch marks the side for the next settle.
func (s *side) touch() {
	if !s.mark {
		s.mark = true
		s.o.touched = append(s.o.touched, s)
	}
}

// note adds a packet to the trace.
func (s *side) note(d *sim.Datagram, dir string, p *wire.Packet, ok bool) {
	n := p.RETH.DMALen
	if p.BTH.Opcode.HasAETH() {
		n = uint32(p.AETH.Syndrome)
	}
	if len(s.trace) >= 400 {
		s.trace = append(s.trace[:0], s.trace[200:]...)
	}
	s.trace = append(s.trace, traceEntry{int64(d.Time), dir, p.BTH.Opcode, p.BTH.PSN, n, d.Verdict, !ok})
}

// newSide returns the model of one end of a new connection. The caller sets peer.
func (o *oracle) newSide(name string, at endpoint, attr ci.QPAttr, ackDelay ci.TimeExp, rq *recvQueue,
	shared bool) *side {
	s := &side{o: o, name: name, attr: attr, mtu: int64(attr.MTU.Bytes()), rq: rq, shared: shared,
		retries: attr.RetryCount, rnr: attr.RNRRetry,
		wait: 4096 * time.Nanosecond << max(attr.Primary.AckTimeout, ackDelay)}
	o.sides[at] = s
	return s
}

// watch observes a packet that is sent or arrives.
func (o *oracle) watch(d *sim.Datagram) {
	if o.err != nil {
		return
	}
	ok := true
	if d.Arrived {
		if ok = accepted(d); !ok {
			o.refused++
		} else if d.Flipped >= 0 {
			o.harmless++
		}
	}
	data := d.Data
	if d.Arrived && d.Flipped >= 0 { // parse the undamaged packet
		data = append([]byte(nil), data...)
		data[d.Flipped/8] ^= 1 << (d.Flipped % 8)
	}
	if err := wire.ParseIP(data, &o.frame); err != nil {
		o.err = fmt.Errorf("at %v, from %v to %v: invalid packet: %w", d.Time, d.From, d.To, err)
		return
	}
	p := &o.frame.Packet
	if !d.Arrived {
		if err := o.frame.CheckICRC(); err != nil {
			o.err = fmt.Errorf("at %v, from %v to %v: %w", d.Time, d.From, d.To, err)
			return
		}
	}
	to := o.sides[endpoint{d.To, p.BTH.DestQP}]
	if to == nil {
		o.err = fmt.Errorf("at %v, from %v: a %v to QP %#x of %v, which does not exist", d.Time, d.From, p.BTH.Opcode,
			p.BTH.DestQP, d.To)
		return
	}
	response := p.BTH.Opcode.Response()
	if !d.Arrived {
		s := to.peer
		s.note(d, "sent", p, true)
		s.touch()
		if response {
			s.sentResponse(p)
		} else {
			s.sentRequest(p)
		}
		return
	}
	if o.last != to && o.last != nil {
		o.last.failLocal()
	}
	o.last = to
	to.note(d, "came", p, ok)
	if !ok || to.failed {
		return
	}
	to.touch()
	if response {
		to.gotResponse(p)
	} else {
		to.gotRequest(p)
	}
}

// settle checks, at the end of a step of virtual time, that everything that was due has happened.
func (o *oracle) settle() {
	for _, s := range o.touched {
		s.failLocal()
		s.settled()
		s.mark = false
	}
	o.touched = o.touched[:0]
}

// settled checks that nothing is overdue.
func (s *side) settled() {
	now := s.o.now()
	switch {
	case len(s.wantSend) > 0:
		w := s.wantSend[0]
		s.fail("the completion of request %d with status %v is due and has not come", w.id, w.status)
	case len(s.wantRecv) > 0:
		w := s.wantRecv[0]
		s.fail("the completion of receive %d with status %v is due and has not come", w.id, w.status)
	case s.failed:
	case s.nak != nil:
		s.fail("%v with PSN of packet %d is due and was not sent", s.nak.syn, s.nak.hi)
	case s.ackDue:
		s.fail("an acknowledgement is due and was not sent")
	case len(s.answers) > 0:
		s.fail("the answer to packet %d is due and was not sent", s.answers[0].next)
	case s.gapAt != 0 && s.gapAt < now:
		s.fail("a gap before packet %d was due to be reported at %v, and was not", s.expect, s.gapAt)
	case s.heldAt != 0 && s.heldAt < now && s.cursor > s.held && s.acked < s.sent:
		s.fail("packet %d was due to be retransmitted at %v after a NAK, and was not", s.held, s.heldAt)
	case s.deadline != 0 && s.deadline < now && !(s.waitUntil > s.deadline):
		s.fail("the acknowledgement timer was due at %v, and nothing happened", s.deadline)
	}
}

// sweep checks all sides, including those without events.
func (o *oracle) sweep() {
	for _, s := range o.sides {
		if !s.failed {
			s.retire()
		}
		s.settled()
	}
}
