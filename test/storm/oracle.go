package storm

import (
	"fmt"
	"strings"
	"time"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/wire"
)

// oracle computes from posts and packets what must come of them.
type oracle struct {
	now     func() time.Duration
	sides   map[endpoint]*side // of the present lives
	touched []*side            // since the last settle
	last    *side              // to which something came last
	err     error              // the first thing that was wrong
	frame   wire.Frame

	harmless, refused   uint64
	rnr, naks, timeouts uint64
}

// request is one that was posted to a send queue.
type request struct {
	id     uint64
	op     ci.SendOp
	flags  ci.SendFlags
	imm    uint32
	inv    ci.Key
	size   uint32 // bytes
	remote ci.Remote
	atomic ci.Atomic
	word   *uint64 // what an atomic changes, as the oracle knows it
	wrong  wrong

	first, n int64  // its packets, counted from the connection's first; n is 0 for what stays in the HCA
	orig     uint64 // what an atomic has found
	ran      bool   // executed, though others before it are not complete
}

// wrong is what is wrong with a request, on purpose.
type wrong uint8

const (
	nothing    wrong = iota
	remoteKey        // the responder must refuse the access
	misaligned       // an atomic at an odd address is an invalid request
	localKey         // the requester's own HCA must refuse it
)

func (r *request) end() int64 { return r.first + r.n }

// answered tells requests that are complete by an answer of their own, not by an acknowledgement (9.7.5.1.4).
func (r *request) answered() bool {
	return r.op == ci.OpRead || r.op == ci.OpCompareSwap || r.op == ci.OpFetchAdd
}

func (r *request) imms() bool { return r.flags&ci.SendImmediate != 0 }

// recv is a posted receive.
type recv struct {
	id   uint64
	room uint32
}

// recvQueue is a receive queue, or one that several sides share.
type recvQueue struct{ list []recv }

// wanted is a completion that must come now.
type wanted struct {
	id     uint64
	status ci.WCStatus
	either bool // flushed, or executed just before: what is behind a request that failed
	r      *request
}

// side is one end of a connection: a requester and a responder.
type side struct {
	o    *oracle
	name string
	attr ci.QPAttr // as the consumer set it
	mtu  int64
	wait time.Duration // the acknowledgement timeout
	peer *side

	// The requester. Packets are counted from 0 on, not modulo 2^24.
	reqs      []*request
	head      int   // first request that is not complete
	next      int64 // first packet of the next request
	cursor    int64 // packet that may be sent next
	acked     int64 // packets before it are answered
	sent      int64 // packets before it have been sent at least once
	retries   uint8
	rnr       uint8
	told      bool          // a NAK of a sequence error has had its retry, since the last progress or timeout
	overtaken bool          // the same of an answer that has come before another one
	deadline  time.Duration // of the acknowledgement timer; 0: not running
	waitUntil time.Duration // not ready: nothing may be sent before
	wantSend  []wanted
	unready   int64         // packet of the NAK that waitUntil is of
	heeds     errorLimit    // of NAKs
	heldAt    time.Duration // when a NAK beyond the limit counts; 0: none waits
	held      int64         // its packet

	// The responder.
	expect   int64 // packet expected next
	exec     int   // request of the peer that it belongs to
	msn      uint32
	silent   bool          // a NAK has told of the gap
	nak      *nak          // must be sent now
	reports  errorLimit    // of gaps
	gapAt    time.Duration // when a gap beyond the limit is reported; 0: none waits
	ackDue   bool          // something that acknowledges must be sent now
	answers  []span
	in       *recv // of the message in progress
	inBytes  uint32
	rq       *recvQueue
	shared   bool
	wantRecv []wanted

	doomed bool // see doom
	dead   bool
	diedAt time.Duration
	diedOf ci.WCStatus // WCFlushErr: of something else than a request of its own
	story  []sight
	mark   bool // in oracle.touched
}

// nak is one that is due.
type nak struct {
	syn wire.Syndrome
	lo  int64 // its PSN is one of
	hi  int64
}

// span is packets of answers that are due.
type span struct{ next, end int64 }

// fail notes the first violation.
func (s *side) fail(format string, args ...any) {
	if s.o.err != nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "at %v, %s: %s\n", s.o.now(), s.name, fmt.Sprintf(format, args...))
	fmt.Fprintf(&b, "requester: answered %d, next %d, sent %d of %d packets; %d retries and %d RNR retries left, NAK told %t, answer overtaken %t, timer %v, waits until %v\n",
		s.acked, s.cursor, s.sent, s.next, s.retries, s.rnr, s.told, s.overtaken, s.deadline, s.waitUntil)
	fmt.Fprintf(&b, "responder: expects %d, silent %t; dead %t at %v of %v; SQ PSN %#x, RQ PSN %#x, MTU %d, retry count %d, RNR retry %d\n",
		s.expect, s.silent, s.dead, s.diedAt, s.diedOf, s.attr.SQPSN, s.attr.RQPSN, s.mtu, s.attr.RetryCount, s.attr.RNRRetry)
	for i := s.head; i < len(s.reqs) && i < s.head+8; i++ {
		r := s.reqs[i]
		fmt.Fprintf(&b, "  request %d: op %d flags %#x, %d bytes, packets [%d, %d), wrong %d\n", r.id, r.op, r.flags, r.size, r.first, r.end(), r.wrong)
	}
	for _, x := range s.story[max(0, len(s.story)-40):] {
		fmt.Fprintf(&b, "  %12d ns  %-4s %-28v PSN %#06x  %#x %v", x.at, x.dir, x.op, x.psn, x.n, x.verdict)
		if x.flipped {
			b.WriteString(", thrown away")
		}
		b.WriteByte('\n')
	}
	s.o.err = fmt.Errorf("%s", b.String())
}

func (s *side) touch() {
	if !s.mark {
		s.mark = true
		s.o.touched = append(s.o.touched, s)
	}
}

// note adds a packet to the side's story.
func (s *side) note(d *reference.Datagram, dir string, p *wire.Packet, ok bool) {
	n := p.RETH.DMALen
	if p.BTH.Opcode.HasAETH() {
		n = uint32(p.AETH.Syndrome)
	}
	if len(s.story) >= 400 {
		s.story = append(s.story[:0], s.story[200:]...)
	}
	s.story = append(s.story, sight{int64(d.Time), dir, p.BTH.Opcode, p.BTH.PSN, n, d.Verdict, !ok})
}

// newSide is one end of a new connection. expose the other with connect.
func (o *oracle) newSide(name string, at endpoint, attr ci.QPAttr, ackDelay ci.TimeExp, rq *recvQueue, shared bool) *side {
	s := &side{o: o, name: name, attr: attr, mtu: int64(attr.MTU.Bytes()), rq: rq, shared: shared, retries: attr.RetryCount, rnr: attr.RNRRetry,
		wait: 4096 * time.Nanosecond << max(attr.Primary.AckTimeout, ackDelay)}
	o.sides[at] = s
	return s
}

// watch sees a packet, and who sent it.
func (o *oracle) watch(d *reference.Datagram) {
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
	if d.Arrived && d.Flipped >= 0 { // read what was meant
		data = append([]byte(nil), data...)
		data[d.Flipped/8] ^= 1 << (d.Flipped % 8)
	}
	if err := wire.ParseIP(data, &o.frame); err != nil {
		o.err = fmt.Errorf("at %v, from %v to %v: the packet is none: %w", d.Time, d.From, d.To, err)
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
		o.err = fmt.Errorf("at %v, from %v: a %v to QP %#x of %v, which does not exist", d.Time, d.From, p.BTH.Opcode, p.BTH.DestQP, d.To)
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
		o.last.doom()
	}
	o.last = to
	to.note(d, "came", p, ok)
	if !ok || to.dead {
		return
	}
	to.touch()
	if response {
		to.gotResponse(p)
	} else {
		to.gotRequest(p)
	}
}

// settle is told that a step of time is over: what was due has been done.
func (o *oracle) settle() {
	for _, s := range o.touched {
		s.doom()
		s.settled()
		s.mark = false
	}
	o.touched = o.touched[:0]
}

func (s *side) settled() {
	now := s.o.now()
	switch {
	case len(s.wantSend) > 0:
		w := s.wantSend[0]
		s.fail("the completion of request %d with status %v is due and has not come", w.id, w.status)
	case len(s.wantRecv) > 0:
		w := s.wantRecv[0]
		s.fail("the completion of receive %d with status %v is due and has not come", w.id, w.status)
	case s.dead:
	case s.nak != nil:
		s.fail("%v with PSN of packet %d is due and was not sent", s.nak.syn, s.nak.hi)
	case s.ackDue:
		s.fail("an acknowledgement is due and was not sent")
	case len(s.answers) > 0:
		s.fail("the answer to packet %d is due and was not sent", s.answers[0].next)
	case s.gapAt != 0 && s.gapAt < now:
		s.fail("a gap before packet %d was to be reported at %v, and was not", s.expect, s.gapAt)
	case s.heldAt != 0 && s.heldAt < now && s.cursor > s.held && s.acked < s.sent:
		s.fail("packet %d was to be sent again at %v, as a NAK asked for, and was not", s.held, s.heldAt)
	case s.deadline != 0 && s.deadline < now && !(s.waitUntil > s.deadline):
		s.fail("the acknowledgement timer was due at %v, and nothing happened", s.deadline)
	}
}

// sweep looks at all sides, those to which nothing happens included.
func (o *oracle) sweep() {
	for _, s := range o.sides {
		if !s.dead {
			s.retire()
		}
		s.settled()
	}
}
