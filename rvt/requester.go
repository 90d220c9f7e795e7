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
// Requests before next have been sent whole, the one at next has been sent up to off packets, the ones from next on have not been
// sent, or are to be sent again.
type requester struct {
	win              []sendEntry // length a power of two
	head, next, tail uint32
	off              uint32 // packets of the entry at next that are out
	psn              ci.PSN // of the next packet at (next, off)
	una              ci.PSN // oldest not acknowledged
	max              ci.PSN // after the newest ever sent
	newPSN           ci.PSN // first PSN for the next request that has none
	bytes            int64  // payload sent or asked for since una, that is, on the way
	window           int64  // most of that
	reads            uint32 // read requests and atomics unanswered
	retries          uint8
	rnrRetries       uint8
	heeded           sequenceErrors
	drainEvent       bool
	retryAt          time.Duration
	lateness
	rnrAt  time.Duration
	rnrPSN ci.PSN // of the RNR NAK that rnrAt waits for
	naks   nakLimit
	nakAt  time.Duration // when a NAK is acted on that has to wait; 0: none does
	nakPSN ci.PSN
	pacing
}

// sequenceErrors are the kinds of sequence error (IBTA volume 1, 9.7.5.2.8) that have had their retry since the last progress or timeout. A second
// one of a kind has none. A responder sends one NAK for a gap and is silent until the gap is closed, which is progress (9.7.5.1.1); an
// answer lost makes all answers behind it, which are on their way already, come too early. So what comes then tells of the same loss: it is the
// NAK that a network has doubled, or the answers to the first try. That an answer is one to the second try, whose beginning is lost as well,
// cannot be told: its packets are the same ones, and on a network that reorders their order says nothing. Such a loss is the timer's.
// After a timeout everything that was on its way has come or is lost, for that is what the timer is made of (9.7.6.1.3): a NAK that
// comes then is for what was sent again, and is heeded at once.
type sequenceErrors struct {
	nak     bool // told by a NAK
	implied bool // told by an answer that has overtaken another one
}

// sendEntry is a request in the window.
type sendEntry struct {
	w       Work
	first   ci.PSN
	npkts   uint32
	got     uint32 // READ: packets of the response that have come
	chunk   uint32 // READ: packets of each request but the last
	started bool   // has PSNs
	applied bool   // an invalidation that waits for accesses under way
	done    bool   // answered (READ, atomic) or executed (local operations)
}

const (
	minWindow = 4
	// psnWindow is the most PSNs that may be outstanding: beyond half of the space, old and new could not be told apart.
	psnWindow = 1<<23 - 1
	// maxReadPackets is the most PSNs that one READ request asks for. A longer READ goes out as several requests, one after the
	// other, as does what is left of one after a loss.
	maxReadPackets = 1 << 21
	// packetWindow is what Hints.Packets is unless the port says otherwise.
	packetWindow = 256
)

func (s *requester) start(psn ci.PSN) {
	s.psn, s.una, s.max, s.newPSN = psn, psn, psn, psn
}

func (s *requester) at(i uint32) *sendEntry { return &s.win[i&uint32(len(s.win)-1)] }

// decode pulls one more request into the window.
func (q *QP) decode() bool {
	s := &q.req
	if s.tail-s.head == uint32(len(s.win)) && !q.growWindow() {
		return false
	}
	e := s.at(s.tail)
	if !q.sq.Next(&e.w) {
		return false
	}
	e.first, e.npkts, e.got, e.chunk = 0, 0, 0, 0
	e.started, e.applied, e.done = false, false, false
	var n uint64
	if e.w.IsInl {
		n = uint64(len(e.w.Inline))
	} else {
		for i := range e.w.SGL {
			n += uint64(e.w.SGL[i].Length)
		}
	}
	e.w.Length = n
	s.tail++
	return true
}

// growWindow doubles the window, up to the depth of the queue: QPs that never have much outstanding stay small.
func (q *QP) growWindow() bool {
	s := &q.req
	n := len(s.win)
	if n >= q.sq.Depth() && n > 0 {
		return false
	}
	size := max(2*n, minWindow)
	win := make([]sendEntry, size)
	width := q.caps.SendSGE
	sge := make([]ci.SGE, size*width)
	for i := range win {
		win[i].w.SGL = sge[i*width : i*width : (i+1)*width]
	}
	for i := s.head; i != s.tail; i++ {
		old := s.at(i)
		e := &win[i&uint32(size-1)]
		sgl := append(e.w.SGL, old.w.SGL...)
		*e = *old
		e.w.SGL = sgl
	}
	s.win = win
	return true
}

// transmit sends what the window, the peer and the state allow. It is the requester's whole forward motion.
func (q *QP) transmit(r *run) {
	if q.service == wire.UD {
		q.transmitDatagrams(r)
		return
	}
	s := &q.req
	if s.window == 0 {
		q.openWindow()
	}
	before := s.psn
	for s.rnrAt == 0 && s.paceAt == 0 {
		if s.next == s.tail && (q.current() != ci.QPRTS || !q.decode()) {
			break
		}
		if r.left.isSpent() {
			r.more = true
			break
		}
		e := s.at(s.next)
		if e.done { // a local operation, seen again after a rewind
			s.next++
			continue
		}
		if !e.started {
			if q.current() != ci.QPRTS { // draining: what has not started waits
				break
			}
			if !q.begin(r, e) {
				break
			}
			if e.done { // a local operation
				s.next++
				q.retire(r)
				continue
			}
		}
		if !q.sendSome(r, e) {
			break
		}
		if s.off == e.npkts {
			s.next++
			s.off = 0
			if q.service == wire.UC {
				e.done = true
				q.retire(r)
			}
		}
		if q.current() != ci.QPRTS && q.current() != ci.QPSQDraining {
			break // a local error ended it
		}
	}
	if s.psn != before && s.retryAt == 0 && s.una != s.max {
		s.retryAt = q.retryDeadline()
	}
	q.checkDrained()
}

// openWindow sets the window to what the port allows.
func (q *QP) openWindow() {
	q.req.window = int64(q.port.hints.Window)
	if q.req.window == 0 {
		q.req.window = 1 << 62
	}
}

// begin decides whether a request may start, gives it PSNs, and executes local operations.
func (q *QP) begin(r *run, e *sendEntry) bool {
	s := &q.req
	if e.w.Flags&ci.SendFence != 0 && s.reads > 0 {
		return false
	}
	bad := e.w.Bad
	if bad == ci.WCSuccess && e.w.Length > maxMessage {
		bad = ci.WCLocalLenErr
	}
	mtu := uint64(q.mtu)
	n := uint32(1)
	switch e.w.Op {
	case ci.OpSend, ci.OpWrite, ci.OpRead:
		if e.w.Length > mtu {
			n = uint32((e.w.Length + mtu - 1) / mtu)
		}
	case ci.OpCompareSwap, ci.OpFetchAdd:
		if e.w.Length != 8 {
			bad = ci.WCLocalLenErr
		}
	default:
		return q.local(r, e, bad)
	}
	if (e.w.Op == ci.OpRead || e.w.Op == ci.OpCompareSwap || e.w.Op == ci.OpFetchAdd) && q.attr.InitDepth == 0 {
		bad = ci.WCLocalOpErr // could never be sent
	}
	if bad != ci.WCSuccess {
		q.failAt(r, e, bad)
		return false
	}
	e.first, e.npkts, e.started = s.newPSN, n, true
	e.chunk = q.readChunk()
	s.newPSN = psnAdd(s.newPSN, n)
	s.psn, s.off = e.first, 0
	return true
}

// local executes an operation that sends nothing. An invalidation waits for everything before it, whose retransmission may still
// need the key; the others only keep the order of the queue.
func (q *QP) local(r *run, e *sendEntry, st ci.WCStatus) bool {
	s := &q.req
	if e.w.Op == ci.OpLocalInv && s.head != s.next {
		return false
	}
	r.left.spend(localCost(&e.w), 0)
	if st == ci.WCSuccess {
		r.send() // an operation on a region must not wait for holds of this very run
		switch e.w.Op {
		case ci.OpNop:
		case ci.OpLocalInv:
			if !e.applied {
				st = q.hca.localInv(q, e.w.Inv)
				e.applied = st == ci.WCSuccess
			}
			// It is complete when no access of before is under way any more (IBTA volume 1, 10.6.5).
			if e.applied && !q.hca.keys.settled(e.w.Inv, nil) && !q.hca.keys.settled(e.w.Inv, q.kick) {
				return false
			}
		case ci.OpFastReg:
			st = q.hca.fastReg(q, e.w.Ext)
		case ci.OpBindMW:
			st = q.hca.bindMW(q, e.w.Ext)
		default:
			st = ci.WCLocalOpErr
		}
	}
	if st != ci.WCSuccess {
		q.failAt(r, e, st)
		return false
	}
	e.started, e.done = true, true
	e.first, e.npkts = s.newPSN, 0
	return true
}

// localCost is what an operation that sends nothing takes from the quantum: a fast registration looks up every page.
func localCost(w *Work) uint32 {
	if w.Op == ci.OpFastReg && w.Ext != nil {
		return 1 + uint32(len(w.Ext.FastReg.Pages))/8
	}
	return 1
}

// failAt ends the QP's sending with a local error at e, once everything before it is complete.
func (q *QP) failAt(r *run, e *sendEntry, st ci.WCStatus) {
	if q.req.at(q.req.head) == e {
		q.sendError(r, st)
	}
}

// sendSome sends the next train, or request, of e. False means that something has to happen first.
func (q *QP) sendSome(r *run, e *sendEntry) bool {
	s := &q.req
	switch e.w.Op {
	case ci.OpSend, ci.OpWrite:
		return q.sendTrain(r, e)
	case ci.OpRead:
		return q.sendRead(r, e)
	}
	if s.reads >= uint32(q.attr.InitDepth) || !s.open(q, 1) {
		return false
	}
	p := r.packet()
	p.Op = wire.OpFetchAdd
	p.Swap = e.w.Compare
	if e.w.Op == ci.OpCompareSwap {
		p.Op = wire.OpCompareSwap
		p.Swap, p.Compare = e.w.Swap, e.w.Compare
	}
	p.Start, p.End, p.Ack = true, true, true
	p.VA, p.RKey = e.w.Remote.Addr, e.w.Remote.RKey
	p.PSN = s.psn
	s.reads++
	r.left.spend(1, 8)
	s.advance(1, 0)
	return true
}

// open tells whether n more PSNs may be outstanding.
func (s *requester) open(q *QP, n uint32) bool {
	out := uint32(psnDiff(s.psn, s.una))
	if limit := q.packetWindow(); out+n > limit {
		return limit < psnWindow && out == 0
	}
	return true
}

// packetWindow is the most PSNs that may be outstanding.
func (q *QP) packetWindow() uint32 {
	h := &q.port.hints
	switch {
	case h.Window == 0:
		return psnWindow
	case h.Packets == 0:
		return packetWindow
	}
	return uint32(min(h.Packets, psnWindow))
}

// advance moves the cursor over n packets.
func (s *requester) advance(n uint32, bytes int64) {
	s.psn = psnAdd(s.psn, n)
	s.off += n
	s.bytes += bytes
	if psnDiff(s.psn, s.max) > 0 {
		s.max = s.psn
	}
}

// sendTrain sends packets of a SEND or WRITE.
func (q *QP) sendTrain(r *run, e *sendEntry) bool {
	s := &q.req
	mtu := q.mtu
	n := e.npkts - s.off
	if n > 1 {
		n = min(n, uint32(max(q.port.hints.MaxTrain, int(mtu)))/mtu)
		n = r.left.train(n, mtu)
	}
	if q.service == wire.RC {
		out := uint32(psnDiff(s.psn, s.una))
		limit := q.packetWindow()
		if out >= limit {
			return false
		}
		n = min(n, limit-out)
		if room := s.window - s.bytes; room < int64(n)*int64(mtu) {
			if n = uint32(max(room, 0) / int64(mtu)); n == 0 {
				if s.bytes > 0 {
					return false
				}
				n = 1
			}
		}
	} else if n = q.pace(n); n == 0 {
		return false
	}
	start := uint64(s.off) * uint64(mtu)
	p, n := q.fill(r, e, start, n)
	if p == nil {
		q.failAt(r, e, ci.WCLocalProtErr)
		return false
	}
	end := s.off+n == e.npkts
	size := p.Len
	p.Op = wire.OpSend
	if e.w.Op == ci.OpWrite {
		p.Op = wire.OpWrite
	}
	p.Start, p.End = s.off == 0, end
	if p.Start && e.w.Op == ci.OpWrite {
		p.VA, p.RKey, p.DMALen = e.w.Remote.Addr, e.w.Remote.RKey, uint32(e.w.Length)
	}
	if end {
		q.endOfMessage(p, e)
	}
	p.PSN, p.N = s.psn, n
	s.advance(n, int64(size))
	r.left.spend(n, size)
	s.paced(n, size)
	if q.service == wire.RC && !end && s.half(q) {
		p.Ack = true // the window will close before the message ends
	}
	return true
}

// half tells whether half of what may be outstanding is. On a lossless link that is half of the PSNs.
func (s *requester) half(q *QP) bool {
	most := q.packetWindow()
	if q.port.hints.Lossless {
		most = psnWindow
	}
	return s.bytes >= s.window/2 || uint32(psnDiff(s.psn, s.una)) >= most/2
}

// fill makes a packet with the data of up to n packets of e from off on. A batch that is full is sent first; a train too long for what
// memory without direct access needs is shortened, and a packet of too many pieces is copied. nil: the data cannot be had.
func (q *QP) fill(r *run, e *sendEntry, off uint64, n uint32) (*Packet, uint32) {
	for {
		size := uint32(min(e.w.Length-off, uint64(n)*uint64(q.mtu)))
		r.room(q.caps.SendSGE + 1)
		p := r.packet()
		first, copied := r.nsegs, r.nbuf
		if q.gather(r, e, off, size) {
			r.flat = false
			p.Payload, p.Len = r.segs[first:r.nsegs], size
			return p, n
		}
		r.unpacket()
		r.nsegs, r.nbuf = first, copied
		switch {
		case r.npkts > 0:
			r.send()
		case n > 1:
			n = max(min(n/2, runBuffer/q.mtu), 1)
		case !r.flat:
			r.flat = true // the memory may be in more pieces than a batch holds
		default:
			r.flat = false
			return nil, 0
		}
	}
}

// endOfMessage sets what only the last packet of a message carries.
func (q *QP) endOfMessage(p *Packet, e *sendEntry) {
	p.SE = e.w.Flags&ci.SendSolicited != 0
	p.Ack = q.service == wire.RC
	if e.w.Flags&ci.SendImmediate != 0 {
		p.HasImm, p.Imm = true, e.w.Imm
	} else if e.w.Flags&ci.SendInvalidate != 0 && e.w.Op == ci.OpSend {
		p.HasInv, p.Inv = true, e.w.Inv
	}
}

// gather appends n bytes of a request's data, from off on, to the batch. False: a key, bound or right does not hold.
func (q *QP) gather(r *run, e *sendEntry, off uint64, n uint32) bool {
	if e.w.IsInl {
		if r.nsegs == len(r.segs) {
			return false
		}
		if n > 0 {
			r.segs[r.nsegs] = e.w.Inline[off : off+uint64(n)]
			r.nsegs++
		}
		return true
	}
	for i := range e.w.SGL {
		g := e.w.SGL[i]
		if off >= uint64(g.Length) {
			off -= uint64(g.Length)
			continue
		}
		g.Addr += off
		g.Length = min(g.Length-uint32(off), n)
		off = 0
		if g.Length == 0 {
			break
		}
		m, st := r.holds.local(q.hca, q.pd, g, false)
		if st != ci.WCSuccess || !r.view(m, g.Length) {
			return false
		}
		if n -= g.Length; n == 0 {
			break
		}
	}
	return n == 0
}

// readChunk is how many packets a new READ asks for in one request.
func (q *QP) readChunk() uint32 {
	if w := q.port.hints.Window; w != 0 {
		return min(max(uint32(w)/4/q.mtu, 1), maxReadPackets)
	}
	return maxReadPackets
}

// sendRead sends a READ request for what is left of e, or for what is left of a chunk of it. What is asked for again must lie inside
// one request that the peer remembers (IBTA volume 1, 9.7.5.1.2), so chunks do not depend on how wide the window happens to be.
func (q *QP) sendRead(r *run, e *sendEntry) bool {
	s := &q.req
	n := min(e.npkts-s.off, e.chunk-s.off%e.chunk)
	if s.reads >= uint32(q.attr.InitDepth) {
		return false
	}
	if out := uint32(psnDiff(s.psn, s.una)); out+n > psnWindow {
		return false
	}
	if s.bytes > 0 && s.window-s.bytes < int64(n)*int64(q.mtu) {
		return false
	}
	start := uint64(s.off) * uint64(q.mtu)
	size := uint32(min(e.w.Length-start, uint64(n)*uint64(q.mtu)))
	p := r.packet()
	p.Op = wire.OpReadRequest
	p.Start, p.End, p.Ack = true, true, true
	p.VA, p.RKey, p.DMALen = e.w.Remote.Addr+start, e.w.Remote.RKey, size
	p.PSN = s.psn
	s.reads++
	r.left.spend(1, 0)
	s.advance(n, int64(size))
	return true
}

// rewind goes back to a PSN that has been sent: everything from it on is sent again (go-back-N). The timer stops, and starts again with the first
// packet, so that one loss that both a NAK and the timer report costs one retry.
func (q *QP) rewind(psn ci.PSN) {
	s := &q.req
	s.retryAt, s.lateness = 0, lateness{}
	for i := s.head; i != s.tail; i++ {
		e := s.at(i)
		if !e.started {
			break
		}
		if d := psnDiff(psn, e.first); d >= 0 && d < int32(e.npkts) {
			s.next, s.off, s.psn = i, uint32(d), psn
			s.reads, s.bytes = 0, 0
			return
		}
	}
}

// timedOut is the end of the acknowledgement timer.
func (q *QP) timedOut(r *run) {
	s := &q.req
	if st := q.current(); st != ci.QPRTS && st != ci.QPSQD && st != ci.QPSQDraining || s.una == s.max || s.rnrAt != 0 {
		return
	}
	q.hca.count.add(CountRetry, 1)
	if !q.spendRetry(r) {
		return
	}
	s.heeded, s.nakAt = sequenceErrors{}, 0
	q.rewind(s.una)
	q.slowDown()
}

// spendRetry takes one of the QP's retries; without any left, the QP migrates or fails.
func (q *QP) spendRetry(r *run) bool {
	s := &q.req
	if s.retries > 0 {
		s.retries--
		return true
	}
	if q.attr.APM == ci.APMArmed {
		q.migrate()
		s.retries = q.attr.RetryCount
		return true
	}
	q.sendError(r, ci.WCTimeoutRetryErr)
	return false
}

// slowDown halves what may be on the way; progress gives it back slowly. It is a guest's good manners on a link without flow control.
func (q *QP) slowDown() {
	s := &q.req
	if w := int64(q.port.hints.Window); w != 0 {
		s.window = max(s.window/2, min(w, 4*int64(q.mtu)))
	}
}

func (q *QP) speedUp() {
	s := &q.req
	if w := int64(q.port.hints.Window); w != 0 && s.window < w {
		s.window = min(s.window+int64(q.mtu), w)
	}
}

// checkDrained ends SQ draining when nothing that has started is left.
func (q *QP) checkDrained() {
	s := &q.req
	if q.current() != ci.QPSQDraining {
		return
	}
	if s.head != s.tail && s.at(s.head).started {
		return
	}
	q.setState(ci.QPSQD)
	if s.drainEvent {
		s.drainEvent = false
		q.notify.event(ci.EventSQDrained, 0, 0)
	}
}

// queryPSNs gives the PSNs that Query shows.
func (q *QP) queryPSNs() (sq, rq ci.PSN) {
	if q.current() < ci.QPRTR {
		return q.attr.SQPSN, q.attr.RQPSN
	}
	sq, rq = q.attr.SQPSN, q.attr.RQPSN
	if q.current() >= ci.QPRTS && q.service != wire.UD {
		sq = q.req.newPSN
	}
	if q.service != wire.UD {
		rq = q.resp.psn
	}
	return sq, rq
}
