package model

import (
	"encoding/binary"
	"time"

	"ciddk/ci"
)

// settle lets all queues work until nothing moves.
func (w *World) settle() {
	for moved := true; moved; {
		moved = false
		for _, q := range w.qps {
			for !q.Dead && q.advance() {
				moved = true
			}
		}
	}
}

// Rest ends a step: the driver is at rest, and everything predicted has come.
func (w *World) Rest() {
	w.Dropped, w.AtLeast = false, 0
	for _, q := range w.qps {
		q.begun, q.done = nil, 0
	}
}

// place writes to the responder's memory. A request without a fence may overtake READs and atomics before it (IBTA
// volume 1, table 76), so what these return is not specified if it changes their source.
func (q *QP) place(r *request, target []piece, data []datum) {
	scatter(target, data)
	if r.Flags&ci.SendFence != 0 {
		q.begun = nil
	}
	for _, f := range q.begun {
		if overlap(f.source, target) {
			haze(f.dest) // nothing may show when they have returned
		}
	}
}

func overlap(a, b []piece) bool {
	for _, x := range a {
		for _, y := range b {
			if x.mem == y.mem && x.off < y.off+y.n && y.off < x.off+x.n {
				return true
			}
		}
	}
	return false
}

// Settle lets all queues work after a change of Cut.
func (w *World) Settle() { w.settle() }

// advance executes the oldest send. It returns false if nothing changes.
func (q *QP) advance() bool {
	switch q.State {
	case ci.QPError, ci.QPSQError:
		n := len(q.sq) + len(q.rq)
		q.flushSends()
		if q.State == ci.QPError {
			q.flushReceives()
			return n > 0
		}
		return n > len(q.rq)
	case ci.QPSQDraining:
		if len(q.sq) == 0 || !q.sq[0].begun {
			q.State = ci.QPSQD
			if q.wantsDrained {
				q.wantsDrained = false
				q.Events.expect(ci.EventSQDrained, "CI-SQD-02")
			}
			return true
		}
	case ci.QPRTS:
	default:
		return false
	}
	if len(q.sq) == 0 || q.Loose {
		return false
	}
	r := q.sq[0]
	isNew := !r.begun
	r.begun = true
	q.stall, q.delay = notStalled, 0
	status, rule := q.execute(r)
	if q.delay > 0 && isNew && !q.CA.w.Lossy && q.delay > q.CA.w.AtLeast {
		q.CA.w.AtLeast, q.CA.w.AtLeastRule = q.delay, rule
	}
	switch {
	case q.stall != notStalled:
		return false
	case len(q.sq) == 0 || q.sq[0] != r: // a datagram to its own QP, whose receive failed, is flushed or succeeds
		q.loosen()
		return false
	case status == ci.WCSuccess:
		q.sq = q.sq[1:]
		q.done++
		if r.Flags&ci.SendSignaled != 0 || q.Flags&ci.QPSignalAll != 0 {
			q.complete(r, false, rule, ci.WCSuccess)
		} else { // nothing may show that it has ended, and in Error it would be flushed
			q.CA.w.Dropped = true
		}
	default:
		list := []ci.WCStatus{status}
		if r.Op == ci.OpLocalInv || r.Op == ci.OpFastReg { // the headers have no status of their own for it
			list = append(list, ci.WCLocalProtErr, ci.WCLocalOpErr)
		}
		// both are errors (IBTA 11.6.2)
		n := lengthOf(&ci.SendWR{SGL: r.sgl})
		most := int(q.CA.Port.MaxMsgSize)
		if q.Type == ci.UD {
			most = q.CA.Port.MTU.Bytes()
		}
		if status == ci.WCLocalProtErr && n > most {
			list = append(list, ci.WCLocalLenErr)
		}
		if q.CA.w.Lossy && q.Type == ci.RC {
			// The NAK may be lost, and those of a responder in Error are not repeated. Then the oldest request without
			// an acknowledgement fails.
			if list = append(list, ci.WCTimeoutRetryErr); q.done > 0 {
				q.loosen()
				return false
			}
		}
		q.fail(r, rule, list...)
	}
	return true
}

// fail completes a send with an error and stops the queue: an RC QP goes to Error, others to SQError.
func (q *QP) fail(r *request, rule Rule, status ...ci.WCStatus) {
	q.sq, q.why = q.sq[1:], rule
	q.complete(r, false, rule, status...)
	if q.Type == ci.RC {
		q.toError()
		return
	}
	q.State = ci.QPSQError
	q.doubtWindows()
	q.flushSends()
}

func (q *QP) flushSends() {
	for _, r := range q.sq {
		status := []ci.WCStatus{ci.WCFlushErr}
		r.flushed()
		q.CA.w.Dropped = q.CA.w.Dropped || r.begun
		if r.Op == ci.OpNop { // it may be done before the request that failed
			status = append(status, ci.WCSuccess)
		}
		q.complete(r, false, "CI-Flush-01", status...)
	}
	q.sq = nil
}

func (q *QP) flushReceives() {
	for _, r := range q.rq {
		q.complete(r, true, "CI-Flush-01", ci.WCFlushErr)
	}
	q.rq, q.torn = nil, 0
}

// complete predicts the completion of a request.
func (q *QP) complete(r *request, recv bool, rule Rule, status ...ci.WCStatus) *Completion {
	c := &Completion{
		WC:       ci.WC{ID: r.ID, QPN: q.Num, Context: q.Context, Status: status[0]},
		Statuses: status, Rule: rule, Loose: q.Loose, q: q, recv: recv, seq: r.seq, life: q.life,
	}
	if recv {
		if status[0] != ci.WCSuccess {
			q.RecvCQ.push(c)
		}
		return c // the caller of a success adds its fields and pushes it
	}
	c.WC.Op = operations[r.Op].wc
	if c.WC.Length = uint32(lengthOf(&ci.SendWR{SGL: r.sgl, Inline: r.Inline})); r.bind != nil {
		c.WC.Op = ci.WCBindMW
	}
	q.SendCQ.push(c)
	return c
}

// execute executes a send and returns the status of its completion. If q.stall is set, it is not done yet.
func (q *QP) execute(r *request) (ci.WCStatus, Rule) {
	if r.Op == ci.OpNop {
		return ci.WCSuccess, "CI-Opcode-01"
	}
	if r.bind != nil || r.fast != nil || r.Op == ci.OpLocalInv || r.Op == ci.OpBindMW {
		return q.executeLocal(r)
	}
	op := operations[r.Op]
	segs, n, bad := q.PD.local(r.sgl, op.local)
	data := r.inline
	switch {
	case r.inline != nil:
		n = len(data)
	case bad != ci.WCSuccess:
		if q.tear(r); op.local != 0 && len(q.sq) > 1 { // those after it may have been executed when its response fails
			q.loosen()
		}
		return bad, "IBTA-9.9-01"
	case isWord(r.Op) && n != 8: // the sources do not say what happens
		q.loosen()
		return ci.WCLocalLenErr, ""
	case op.local == 0:
		data = gather(segs)
		for i, was := range r.was { // a source that changed before the completion may be sent as it was, or is
			data[i].unknown = data[i].unknown || was != data[i]
		}
		if r.was == nil {
			r.was = data
		}
		for _, f := range q.begun { // bytes that a READ before it may still return, without a fence
			if r.Flags&ci.SendFence == 0 && overlap(f.dest, segs) {
				for i := range data {
					data[i].unknown = true
				}
			}
		}
	}
	if q.Type == ci.UD {
		return q.datagram(r, data)
	}
	p, answered := q.peer()
	if q.Type == ci.UC {
		if answered && !p.Loose {
			p.acceptUC(q, r, data)
		} else {
			q.CA.w.Dropped = true
		}
		return ci.WCSuccess, "IBTA-9.8-03"
	}
	switch {
	case q.CA.w.Cut:
		if q.patience() <= shortWait {
			q.delay = q.patience()
			return ci.WCTimeoutRetryErr, "IBTA-9.9-09"
		}
		q.stall = stalledCut
		return 0, ""
	case !answered || q.sendPSN != p.expectPSN:
		if q.patience() <= shortWait {
			q.delay = q.patience()
			return ci.WCTimeoutRetryErr, "IBTA-9.9-09"
		}
		if q.stall = stalledFor; q.patience() < LongWait {
			q.loosen()
		}
		return 0, ""
	case p.Loose:
		q.loosen()
		q.stall = stalledFor
		return 0, ""
	}
	return p.accept(q, r, data, segs, n)
}

// A request without an answer fails within a step if its QP is patient for up to shortWait, and not within a trace that
// takes less than LongWait if it is patient for LongWait.
const (
	shortWait = 40 * time.Millisecond
	LongWait  = 4 * time.Second
)

// patience returns how long the QP repeats a request without an answer, at least (IBTA volume 1, 9.7.6.1.3).
func (q *QP) patience() time.Duration {
	if q.Attr.Primary.AckTimeout == 0 {
		return LongWait
	}
	return time.Duration(q.Attr.RetryCount+1) << q.Attr.Primary.AckTimeout * 4096
}

// tear is a message with an invalid segment at the requester. Packets before that segment may have been sent, and a
// READ or an atomic may be sent before its segments are checked. If the responder rejects these, the sources do not say
// which error comes first.
func (q *QP) tear(r *request) {
	p, ok := q.peer()
	if q.Type == ci.UD || q.CA.w.Cut && operations[r.Op].local == 0 {
		return
	}
	n, op := lengthOf(&ci.SendWR{SGL: r.sgl}), operations[r.Op]
	if !ok {
		if op.local != 0 {
			q.loosen()
		}
		return
	}
	p.mayOpen()
	if op.local != 0 {
		haze(q.PD.valid(r.sgl)) // a part of the response may have been written
	}
	if op.right != 0 {
		target, ok := p.remote(r.Remote, n, op.right)
		if !ok || p.Attr.Access&op.right == 0 || isWord(r.Op) && r.Remote.Addr%8 != 0 || q.CA.w.Cut {
			q.loosen()
		} else if op.right != ci.RemoteRead {
			haze(target)
		}
		return
	}
	if !p.hasReceive() || p.Shortest(1) < n {
		q.loosen()
		return
	}
	list, torn := p.rq, &p.torn
	if p.SRQ != nil {
		list, torn = p.SRQ.rq, &p.SRQ.torn
	}
	*torn++
	if segs, _, bad := p.recvPD().local(list[0].sgl, ci.LocalWrite); bad == ci.WCSuccess {
		haze(segs)
	} else {
		q.loosen()
	}
}

// peer returns the QP to which a connected QP sends. answered is false if it does not take part.
func (q *QP) peer() (p *QP, answered bool) {
	d := q.CA.reach(q.Attr.Primary.AV)
	if d == nil {
		return nil, false
	}
	p = d.qps[q.Attr.DestNum]
	if p == nil || p.Type != q.Type {
		return p, false
	}
	switch p.State {
	case ci.QPReset, ci.QPInit, ci.QPError:
		return p, false
	}
	if !matchPKey(q.CA.pkey(q.Attr.Primary.PKeyIndex), d.pkey(p.Attr.Primary.PKeyIndex)) {
		d.violations[0].isOpen = true // as often as the packet is repeated
		return p, false
	}
	if p.CA.reach(p.Attr.Primary.AV) != q.CA {
		return p, false
	}
	return p, true
}

// packets returns the number of packets that a message of n bytes takes of the sequence.
func (q *QP) packets(n int) uint32 {
	mtu := q.Attr.MTU.Bytes()
	if mtu == 0 || n == 0 {
		return 1
	}
	return uint32((n + mtu - 1) / mtu)
}

// opened raises EventQPComm at the first message in RTR. Whether a QP without a connection has it is open.
func (q *QP) opened() {
	if q.Type == ci.UD {
		q.mayOpen()
		return
	}
	if q.State == ci.QPRTR && !q.isOpen {
		q.isOpen = true
		q.Events.expect(ci.EventQPComm, "CI-EventComm-01")
	}
}

// accept executes a request of an RC peer and returns the status that the peer sees.
func (q *QP) accept(p *QP, r *request, data []datum, segs []piece, n int) (ci.WCStatus, Rule) {
	q.opened()
	op := operations[r.Op]
	reject := func(e ci.EventType, rule Rule, s ci.WCStatus) (ci.WCStatus, Rule) {
		if op.local != 0 {
			forget(segs)
		}
		q.Events.expect(e, rule)
		q.why = rule
		q.toError()
		return s, rule
	}
	if isAtomic(r.Op) {
		n = 8
	}
	if op.right != 0 {
		target, ok := q.remote(r.Remote, n, op.right)
		denied, forbidden, misaligned := Rule("IBTA-9.9-05"), Rule("IBTA-9.9-13"), Rule("IBTA-9.4-13")
		if r.Op == ci.OpAtomicWrite {
			denied, forbidden, misaligned = "CI-AtomicWrite-04", "CI-AtomicWrite-04", "CI-AtomicWrite-02"
		}
		if x := q.CA.rkeys[r.Remote.RKey]; x != nil && x.window != nil {
			denied = "CI-BindMW-01"
		}
		switch isDenied := q.Attr.Access&op.right == 0; {
		case (isDenied || !ok) && r.Flags&ci.SendImmediate != 0 && !q.hasReceive():
			// Of a request that is refused and has no receive either, no source says which is found first.
			q.loosen()
			p.loosen()
			p.stall = stalledFor
			return 0, ""
		case isDenied:
			return reject(ci.EventWQReqError, forbidden, ci.WCRemInvalidReqErr)
		case r.Op != ci.OpWrite && q.Attr.RespRes == 0:
			return reject(ci.EventWQReqError, "IBTA-9.9-06", ci.WCRemInvalidReqErr)
		case isWord(r.Op) && r.Remote.Addr%8 != 0:
			return reject(ci.EventWQReqError, misaligned, ci.WCRemInvalidReqErr)
		case !ok && r.Op == ci.OpWrite && r.Flags&ci.SendImmediate != 0 && q.hasReceive():
			q.Events.permit(ci.EventWQAccessError)
			if q.SRQ != nil { // whether an entry is used is open
				q.loosen()
				p.loosen()
			} else {
				q.complete(q.takeReceive(), true, denied, ci.WCLocalAccessErr, ci.WCFlushErr)
			}
			q.toError()
			return ci.WCRemAccessErr, denied
		case !ok:
			return reject(ci.EventWQAccessError, denied, ci.WCRemAccessErr)
		case isWord(r.Op) && target[0].off%8 != 0: // D-106 is a decision of the kit
			q.loosen()
			p.loosen()
			return ci.WCRemInvalidReqErr, ""
		}
		switch {
		case r.Op == ci.OpRead:
			scatter(segs, gather(target))
			p.begun = append(p.begun, &fetch{target, segs})
			q.advancePSN(p, n)
			return ci.WCSuccess, "IBTA-9.4-04"
		case isAtomic(r.Op):
			old := atomic(r, target)
			p.place(r, target, gather(target))
			scatter(segs, old)
			p.begun = append(p.begun, &fetch{target, append(segs, target...)})
			q.advancePSN(p, 0)
			return ci.WCSuccess, "IBTA-9.4-11"
		case r.Op == ci.OpAtomicWrite:
			p.place(r, target, data)
			q.advancePSN(p, n)
			return ci.WCSuccess, "CI-AtomicWrite-01"
		case r.Flags&ci.SendImmediate == 0:
			p.place(r, target, data)
			q.advancePSN(p, n)
			return ci.WCSuccess, "IBTA-9.4-01"
		}
		if !q.hasReceive() {
			if p.place(r, target, nil); !r.torn { // all packets but the last may have been executed
				haze(target)
			}
			r.torn = true
			return q.notReady(p)
		}
		p.place(r, target, data)
		if r.torn { // what others wrote in between may have been overwritten, or not
			forget(target)
		}
		q.advancePSN(p, n)
		q.received(q.takeReceive(), r, n, ci.WCRecvWrite)
		return ci.WCSuccess, "IBTA-9.4-03"
	}
	if !q.hasReceive() {
		return q.notReady(p)
	}
	recv := q.takeReceive()
	status, mine, rule := q.fill(recv, data, 0)
	if q.Loose {
		p.loosen()
	}
	if segs, _, bad := q.recvPD().local(recv.sgl, 0); bad == ci.WCSuccess {
		p.place(r, segs, nil)
	}
	if status != ci.WCSuccess {
		q.complete(recv, true, rule, mine)
		q.Events.permit(ci.EventWQReqError)
		q.Events.permit(ci.EventWQAccessError)
		q.toError()
		return status, rule
	}
	if r.Flags&ci.SendInvalidate != 0 && !q.invalidate(r.Inv) {
		q.loosen() // D-77
		p.loosen()
		q.State, p.State = ci.QPError, ci.QPError
		return ci.WCRemAccessErr, "CI-SendInv-01"
	}
	q.advancePSN(p, n)
	q.received(recv, r, n, ci.WCRecv)
	return ci.WCSuccess, "IBTA-9.7-01"
}

func (q *QP) advancePSN(p *QP, n int) {
	k := p.packets(n)
	p.sendPSN, q.expectPSN = (p.sendPSN+k)&0xffffff, (q.expectPSN+k)&0xffffff
}

// atomic executes an atomic and returns the original value.
func atomic(r *request, target []piece) []datum {
	old := gather(target)
	v, isUnknown := uint64(0), false
	for i := range 8 { // D-59: host order, which is little-endian on every system of the kit
		v |= uint64(old[i].b) << (8 * i)
		isUnknown = isUnknown || old[i].unknown
	}
	to := v + r.Atomic.Compare
	if r.Op == ci.OpCompareSwap {
		if to = v; v == r.Atomic.Compare {
			to = r.Atomic.Swap
		}
	}
	out := make([]datum, 8)
	for i := range out {
		out[i] = datum{byte(to >> (8 * i)), isUnknown}
	}
	scatter(target, out)
	return old
}

func (q *QP) hasReceive() bool {
	if q.SRQ != nil {
		return len(q.SRQ.rq) > 0
	}
	return len(q.rq) > 0
}

// takeReceive takes the oldest receive (IBTA-9.7-02, CI-SRQ-02).
func (q *QP) takeReceive() (r *request) {
	if s := q.SRQ; s != nil {
		r, s.rq = s.rq[0], s.rq[1:]
		s.checkLimit()
		return r
	}
	r, q.rq = q.rq[0], q.rq[1:]
	return r
}

// notReady is a message without a receive: it waits with RNRRetry 7, and fails otherwise.
func (q *QP) notReady(p *QP) (ci.WCStatus, Rule) {
	if p.Attr.RNRRetry == 7 {
		if p.stall = stalledRNR; p.CA.w.Lossy { // it may run out of transport retries
			p.loosen()
		}
		return 0, ""
	}
	p.delay = time.Duration(p.Attr.RNRRetry) * rnrTimers[q.Attr.MinRNRTimer&31] * 10 * time.Microsecond
	return ci.WCRNRRetryErr, "IBTA-9.9-07"
}

// rnrTimers has the time of each code of an RNR timer in units of 10 µs (IBTA volume 1, 9.7.5.2.8).
var rnrTimers = [32]time.Duration{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}

// fits reports whether the part of a list of segments that n bytes need after the first skip bytes is valid.
func (q *QP) fits(sgl []ci.SGE, skip, n int) bool {
	for _, s := range sgl {
		k := uint32(min(int(s.Length), skip))
		s.Addr, s.Length, skip = s.Addr+uint64(k), s.Length-k, skip-int(k)
		s.Length = uint32(min(int(s.Length), n))
		if _, _, bad := q.recvPD().local([]ci.SGE{s}, ci.LocalWrite); bad != ci.WCSuccess {
			return false
		}
		n -= int(s.Length)
	}
	return true
}

// recvPD returns the PD against which segments of receives are checked.
func (q *QP) recvPD() *PD {
	if q.SRQ != nil {
		return q.SRQ.PD // CI-SRQ-05
	}
	return q.PD
}

// fill writes a message to a receive, from byte skip on. It returns the statuses of sender and receive.
func (q *QP) fill(r *request, data []datum, skip int) (sender, receiver ci.WCStatus, rule Rule) {
	pd := q.recvPD()
	segs, n, bad := pd.local(r.sgl, ci.LocalWrite)
	switch {
	// whether segments that are not needed are checked is open, such as those for a GRH that does not come
	case bad != ci.WCSuccess && q.fits(r.sgl, skip, len(data)):
		q.loosen()
		return ci.WCRemOpErr, bad, "IBTA-9.9-02"
	case bad != ci.WCSuccess:
		forget(pd.valid(r.sgl)) // segments before the wrong one may have been written
		return ci.WCRemOpErr, bad, "IBTA-9.9-02"
	case n < len(data)+skip:
		forget(segs)
		return ci.WCRemInvalidReqErr, ci.WCLocalLenErr, "IBTA-9.9-03"
	}
	if skip > 0 {
		head := q.head
		for q.head = nil; len(head) < skip; {
			head = append(head, datum{unknown: true})
		}
		data = append(head, data...)
	}
	scatter(segs, data)
	return ci.WCSuccess, ci.WCSuccess, ""
}

// received predicts the completion of a receive.
func (q *QP) received(recv, r *request, n int, op ci.WCOp) *Completion {
	rule := Rule("IBTA-9.7-02")
	switch q.Type {
	case ci.UC:
		rule = "IBTA-9.8-01"
	case ci.UD:
		rule = "IBTA-9.8-10"
	}
	c := q.complete(recv, true, rule, ci.WCSuccess)
	c.WC.Op, c.WC.Length = op, uint32(n)
	if q.CA.Attr.Caps.Has(ci.CapIPChecksum) {
		c.anyFlags = ci.WCChecksumOK
	}
	if r.Flags&ci.SendImmediate != 0 {
		c.WC.Flags, c.WC.Imm = ci.WCImmediate, r.Imm
	}
	if r.Flags&ci.SendInvalidate != 0 && r.Op == ci.OpSend {
		c.WC.Flags, c.WC.Imm = ci.WCInvalidated, uint32(r.Inv)
	}
	c.solicited = r.Flags&ci.SendSolicited != 0
	q.RecvCQ.push(c)
	return c
}

// acceptUC executes a message of a UC peer. What cannot be accepted is dropped (IBTA-9.8-03).
func (q *QP) acceptUC(p *QP, r *request, data []datum) {
	if p.CA.w.Cut {
		return
	}
	n := len(data)
	if r.Op == ci.OpWrite {
		target, ok := q.remote(r.Remote, n, ci.RemoteWrite)
		switch {
		case q.Attr.Access&ci.RemoteWrite == 0 || !ok:
			q.mayOpen()
			q.CA.w.Dropped = true // its rights may change before it arrives
			return
		case r.Flags&ci.SendImmediate == 0:
			q.opened()
			scatter(target, data)
			return
		case !q.hasReceive():
			haze(target)
			q.mayOpen()
			q.CA.w.Dropped = true
			return
		}
		q.opened()
		scatter(target, data)
		q.received(q.takeReceive(), r, n, ci.WCRecvWrite)
		return
	}
	q.deliver(p, r, data, 0)
}

// mayOpen is a message in RTR that is dropped: whether it raises EventQPComm is open.
func (q *QP) mayOpen() {
	if q.State == ci.QPRTR && !q.isOpen {
		q.isOpen = true
		q.Events.permit(ci.EventQPComm)
	}
}

// deliver passes a message of an unreliable service to a receive.
func (q *QP) deliver(p *QP, r *request, data []datum, skip int) *Completion {
	if !q.hasReceive() {
		q.mayOpen()
		q.CA.w.Dropped = true
		return nil
	}
	list := q.rq
	if q.SRQ != nil {
		list = q.SRQ.rq
	}
	if from, _, _ := p.PD.local(r.sgl, 0); overlap(from, q.recvPD().valid(list[0].sgl)) {
		p.loosen() // a message over its own source
	}
	isLong := q.Shortest(1) < len(data)+skip
	status, mine, _ := q.fill(list[0], data, skip)
	switch {
	case status == ci.WCSuccess:
		q.opened()
		return q.received(q.takeReceive(), r, len(data)+skip, ci.WCRecv)
	case mine == ci.WCLocalLenErr || isLong: // D-94: dropped, or the receive completes with an error
		q.loosen()
	default:
		q.mayOpen()
		recv := q.takeReceive()
		q.complete(recv, true, "IBTA-9.9-12", mine)
		q.toError()
	}
	return nil
}

// grh is the length of the header in front of a datagram.
const grh = 40

// datagram executes a send of a UD QP.
func (q *QP) datagram(r *request, data []datum) (ci.WCStatus, Rule) {
	port := q.CA.Port
	d := q.CA.reach(r.av)
	switch {
	case r.avBad:
		return ci.WCLocalOpErr, "CI-PostSend-08"
	case len(data) > port.MTU.Bytes():
		return ci.WCLocalLenErr, "IBTA-9.8-16"
	case r.av.Port != port.Num:
		return ci.WCLocalOpErr, "CI-CreateAV-03"
	case q.CA.w.Cut:
		return ci.WCSuccess, "IBTA-9.8-17"
	case r.to.QPN == 0xffffff && r.av.Global && isGroup(r.av.GRH.DGID):
		for _, d := range q.CA.w.CAs {
			for _, p := range d.attached(r.av.GRH.DGID) {
				q.arrive(d, p, r, data)
			}
		}
		return ci.WCSuccess, "CI-Mcast-01"
	case d == nil:
		return ci.WCSuccess, "IBTA-9.8-17"
	}
	q.arrive(d, d.qps[r.to.QPN], r, data)
	return ci.WCSuccess, "IBTA-9.8-10"
}

// arrive is a datagram that reaches a QP of an adapter, or none.
func (q *QP) arrive(d *CA, p *QP, r *request, data []datum) {
	if p == nil || p.Type != ci.UD || p.Loose {
		q.CA.w.Dropped = true
		return
	}
	switch p.State {
	case ci.QPReset, ci.QPInit, ci.QPError:
		q.CA.w.Dropped = true
		return
	}
	qkey := r.to.QKey
	if qkey>>31 != 0 {
		qkey = q.Attr.QKey // D-64
	}
	switch {
	case !matchPKey(q.CA.pkey(q.Attr.Primary.PKeyIndex), d.pkey(p.Attr.Primary.PKeyIndex)):
		d.violations[0].add()
		q.CA.w.Dropped = true
	case qkey != p.Attr.QKey:
		d.violations[1].add()
		q.CA.w.Dropped = true
	default:
		if p.head = nil; r.av.Global && q.CA.Port.Link == ci.LinkInfiniBand {
			p.head = q.routingHeader(r, len(data))
		}
		if c := p.deliver(q, r, data, grh); c != nil {
			c.WC.SrcQP, c.WC.SL = q.Num, r.av.SL
			c.WC.SLID = q.CA.Port.LID | ci.LID(r.av.PathBits)
			if c.WC.PathBits = uint8(r.av.DLID & (1<<d.Port.LMC - 1)); isGroup(r.av.GRH.DGID) {
				c.WC.PathBits = 0
			}
			c.anySLID = q.CA.Port.Link == ci.LinkEthernet
			if c.anySLID || r.av.Global {
				c.WC.Flags |= ci.WCGRH
			}
		}
	}
}

// routingHeader returns the GRH of a datagram of n bytes (IBTA volume 1, 8.3).
func (q *QP) routingHeader(r *request, n int) []datum {
	const overhead = 12 + 8 + 4 // BTH, DETH, ICRC
	a := r.av.GRH
	n = overhead + (n+3)&^3
	if r.Flags&ci.SendImmediate != 0 {
		n += 4
	}
	b := binary.BigEndian.AppendUint32(nil, 6<<28|uint32(a.TrafficClass)<<20|a.FlowLabel)
	b = append(binary.BigEndian.AppendUint16(b, uint16(n)), 0x1b, a.HopLimit)
	if int(a.SGIDIndex) < len(q.CA.Port.GIDs) {
		b = append(b, q.CA.Port.GIDs[a.SGIDIndex].GID[:]...)
	}
	return known(append(b, a.DGID[:]...))
}

// Waiting returns how many sends and receives wait for execution.
func (q *QP) Waiting() (sends, receives int) {
	if q.SRQ != nil {
		return len(q.sq), len(q.SRQ.rq)
	}
	return len(q.sq), len(q.rq)
}

// Room returns how many sends and receives the queues must still accept.
func (q *QP) Room() (sends, receives int) {
	if q.SRQ != nil {
		return q.SendDepth - q.posted[0] + q.retired[0], q.SRQ.Room()
	}
	return q.SendDepth - q.posted[0] + q.retired[0], q.RecvDepth - q.posted[1] + q.retired[1]
}

// Room returns how many receives the queue must still accept.
func (s *SRQ) Room() int { return s.MaxWR - s.posted + s.retired }

// Waiting returns how many receives wait.
func (s *SRQ) Waiting() int { return len(s.rq) }

// Answers reports whether the peer of a connected QP takes part in the connection.
func (q *QP) Answers() bool { _, ok := q.peer(); return ok }

// RespRes returns how many READs and atomics of its peer the QP accepts.
func (q *QP) RespRes() int { return int(q.Attr.RespRes) }

// Users returns the number of objects that need o.
func (o *Object) Users() int { return o.users }

// Shortest returns the size of the smallest of the next n receives.
func (q *QP) Shortest(n int) int {
	list := q.rq
	if q.SRQ != nil {
		list = q.SRQ.rq
	}
	least := 1 << 30
	for _, r := range list[:min(n, len(list))] {
		k := 0
		for _, s := range r.sgl {
			k += int(s.Length)
		}
		least = min(least, k)
	}
	return least
}
