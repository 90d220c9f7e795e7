package rvt

import (
	"time"

	"ciddk/ci"
	"ciddk/wire"
)

// responder is the receiving half of a connected QP (IBTA volume 1, 9.7.4 to 9.7.8).
type responder struct {
	psn ci.PSN // expected next
	msn uint32

	in     bool // inside a message
	op     wire.Op
	off    uint64 // bytes of the message placed
	rw     RecvWork
	have   bool // rw is taken
	taken  bool // slots of the receive queue are to be released
	va     uint64
	rkey   ci.Key
	remain uint32 // bytes of a WRITE to come
	total  uint32 // and of all of it

	seen   bool // a packet has come (QPComm)
	silent bool // a gap has been reported, or a receiver was not ready: later requests are dropped until the expected one comes
	failed bool // a request has been refused: the QP goes to Error when the answers before it and the NAK are sent
	skip   bool // UC: inside a message of which a packet is missing

	ackDue bool
	unack  uint32 // packets since the last acknowledgement
	nak    wire.Syndrome
	nakPSN ci.PSN
	nakDue bool
	naks   nakLimit
	gapAt  time.Duration // when a gap that is still there is reported; 0: none waits

	out  []response // answers to be sent, in order
	hist []response // READs and atomics executed, for duplicates: the RespRes newest
	hpos int
}

// response is a READ's or an atomic's answer.
type response struct {
	atomic bool
	again  bool   // of a duplicate request
	psn    ci.PSN // next to send
	first  ci.PSN // of the request
	n      uint32 // packets to send from psn on
	npkts  uint32 // packets of the whole answer to this request
	va     uint64 // of first
	rkey   ci.Key
	length uint32
	orig   uint64
	msn    uint32
}

// ackEvery bounds how many packets wait for one acknowledgement while acknowledgements are held back.
const ackEvery = 32

func (s *responder) start(psn ci.PSN) { s.psn = psn }

// receive takes one packet or train, with the token held.
func (q *QP) receive(r *run, p *Packet) {
	st := q.current()
	switch {
	case st == ci.QPReset || st == ci.QPInit || st == ci.QPError:
		q.hca.count.add(DropQPState, int(p.N))
		return
	case p.Service != q.service:
		q.hca.count.add(DropService, int(p.N))
		return
	case q.service == wire.UD:
		q.receiveDatagram(r, p)
		return
	case p.Entropy != q.origin.entropy && p.Src == q.peer && !q.admitEntropy(p):
		return
	case !q.seeMigReq(p):
		q.dropAddress(p)
		return
	case !pkeyMatch(p.PKey, q.pkey):
		q.hca.count.add(DropPKey, int(p.N))
		saturate(&q.port.pkeyErrors)
		return
	case p.N == 0 || p.N > 1 && !p.isTrain(q.mtu):
		q.hca.count.add(DropMalformed, 1)
		return
	}
	if q.service == wire.UC && p.Op != wire.OpSend && p.Op != wire.OpWrite {
		q.hca.count.add(DropService, int(p.N))
		return
	}
	switch p.Op {
	case wire.OpSend, wire.OpWrite, wire.OpReadRequest, wire.OpCompareSwap, wire.OpFetchAdd:
		if q.service == wire.UC {
			q.requestUC(r, p)
		} else {
			q.request(r, p)
		}
	default:
		if st < ci.QPRTS {
			q.hca.count.add(DropResponse, 1)
			return
		}
		q.answer(r, p)
	}
}

// seen notes that the peer's first packet has come, which establishes a connection whose RTU was lost. It has the expected PSN, or, of UC, was
// placed: any other may come from anybody.
func (q *QP) seen() {
	if !q.resp.seen {
		q.resp.seen = true
		if q.current() == ci.QPRTR {
			q.notify.event(ci.EventQPComm, 0, 0)
		}
	}
}

// request is the responder's rule for a request of a reliable connection.
func (q *QP) request(r *run, p *Packet) {
	s := &q.resp
	if s.failed {
		q.hca.count.add(DropQPState, int(p.N))
		return
	}
	d := psnDiff(p.PSN, s.psn)
	if d > farPSN || d < -farPSN {
		q.seeFarPSN(p)
	}
	if d > 0 {
		q.hca.count.add(DropSequence, int(p.N))
		q.gap()
		return
	}
	if d < 0 {
		if uint32(-d) < p.N && (p.Op == wire.OpSend || p.Op == wire.OpWrite) {
			q.hca.count.add(DropDuplicate, int(-d))
			p.trim(uint32(-d))
		} else {
			q.duplicate(r, p)
			return
		}
	}
	s.silent, s.gapAt = false, 0
	q.seen()
	q.verdict(r, p, q.execute(r, p))
}

// verdict answers a request by what became of it.
func (q *QP) verdict(r *run, p *Packet, v verdict) {
	s := &q.resp
	switch v {
	case placed:
		q.heard(p.N)
		if p.Ack && (p.Op == wire.OpSend || p.Op == wire.OpWrite) { // a READ or atomic has an answer of its own
			s.ackDue = true
		}
		s.unack += p.N
	case notReady:
		q.hca.count.add(CountRNRNak, 1)
		s.silent = true
		s.setNak(wire.RNRNAK(q.attr.MinRNRTimer))
	case tooLong:
		q.refuse(r, wire.NAKInvalidRequest, ci.WCLocalLenErr, 0)
	case protection:
		q.refuse(r, wire.NAKRemoteOperation, ci.WCLocalProtErr, 0)
	case badWork:
		q.refuse(r, wire.NAKRemoteOperation, ci.WCLocalOpErr, 0)
	case access:
		q.refuse(r, wire.NAKRemoteAccess, ci.WCLocalAccessErr, ci.EventWQAccessError)
	case invalid, unsupported:
		q.refuse(r, wire.NAKInvalidRequest, ci.WCRemInvalidReqErr, ci.EventWQReqError)
	}
}

// setNak makes a NAK for the expected PSN due. It takes the place of a pending acknowledgement, which it implies.
func (s *responder) setNak(syn wire.Syndrome) {
	s.nak, s.nakPSN, s.nakDue = syn, s.psn, true
	s.ackDue = false
}

// refuse makes a fatal NAK due, behind which the QP goes to Error. A receive that the message has taken completes with st.
func (q *QP) refuse(r *run, syn wire.Syndrome, st ci.WCStatus, event ci.EventType) {
	q.hca.count.add(CountInvalidNak, 1)
	q.resp.setNak(syn)
	q.resp.failed = true
	if q.resp.have {
		q.recvError(r, st)
	}
	if event != 0 {
		q.notify.event(event, 0, 0)
	}
	q.respond(r)
}

// execute carries out the expected request, or as much of a train as can be. It moves the expected PSN over what is done.
func (q *QP) execute(r *run, p *Packet) verdict {
	s := &q.resp
	switch p.Op {
	case wire.OpSend, wire.OpWrite:
		v := q.message(r, p)
		if v != placed {
			return v
		}
		s.psn = psnAdd(s.psn, p.N)
		if p.End {
			s.msn = (s.msn + 1) & psnMask
		}
		return placed
	case wire.OpReadRequest:
		return q.acceptRead(r, p)
	default:
		return q.acceptAtomic(r, p)
	}
}

// checkPlace holds a packet of a message against the message in progress.
func (s *responder) checkPlace(p *Packet, mtu uint32) bool {
	switch {
	case p.Start == s.in, !p.Start && p.Op != s.op:
		return false
	case !p.End:
		return p.Len == p.N*mtu
	case p.Len > p.N*mtu:
		return false
	}
	return p.N == 1 && p.Start || p.Len > (p.N-1)*mtu
}

// message places packets of a SEND or a WRITE: the one piece of code for RC and UC, packets and trains.
func (q *QP) message(r *run, p *Packet) verdict {
	s := &q.resp
	if !s.checkPlace(p, q.mtu) {
		return invalid
	}
	if p.Op == wire.OpSend {
		return q.messageSend(r, p)
	}
	return q.messageWrite(r, p)
}

func (q *QP) messageSend(r *run, p *Packet) verdict {
	s := &q.resp
	if p.Start {
		if v := q.takeRecv(); v != placed {
			return v
		}
		s.off = 0
	}
	if v := r.scatter(q, q.recvPD(), s.rw.SGL, s.off, p.Payload, p.Len); v != placed {
		return v
	}
	s.off += uint64(p.Len)
	if s.off > maxMessage {
		return invalid
	}
	s.in, s.op = !p.End, p.Op
	if p.End {
		if p.HasInv && !q.hca.keys.invalidateRemote(q.hca, q, p.Inv) {
			return access
		}
		wc := r.complete(q.recvCQ, p.SE)
		wc.ID, wc.Length, wc.Op = s.rw.ID, uint32(s.off), ci.WCRecv
		if p.HasImm {
			wc.Flags, wc.Imm = ci.WCImmediate, p.Imm
		}
		if p.HasInv {
			wc.Flags, wc.Imm = ci.WCInvalidated, uint32(p.Inv)
		}
		s.have = false
	}
	return placed
}

func (q *QP) messageWrite(r *run, p *Packet) verdict {
	s := &q.resp
	if p.Start {
		if q.attr.Access&ci.RemoteWrite == 0 {
			return unsupported
		}
		if p.DMALen > maxMessage {
			return invalid
		}
		if p.DMALen > 0 {
			if _, ok := r.holds.remote(q.hca, q, p.RKey, p.VA, uint64(p.DMALen), ci.RemoteWrite); !ok {
				return access
			}
		}
		s.va, s.rkey, s.remain, s.total = p.VA, p.RKey, p.DMALen, p.DMALen
		s.op = p.Op
	}
	if p.Len > s.remain || p.End && p.Len != s.remain {
		s.in = true // whatever it was, it is not over
		return invalid
	}
	if p.End && p.HasImm && !s.have {
		if v := q.takeRecv(); v != placed {
			return q.writeBut(r, p, v)
		}
	}
	if p.Len > 0 {
		if v := r.store(q, s.rkey, s.va, p.Payload, p.Len, p.End); v != placed {
			return v
		}
	}
	s.va += uint64(p.Len)
	s.remain -= p.Len
	s.in = !p.End
	if p.End && p.HasImm {
		wc := r.complete(q.recvCQ, p.SE)
		wc.ID, wc.Length, wc.Op, wc.Flags, wc.Imm = s.rw.ID, s.total, ci.WCRecvWrite, ci.WCImmediate, p.Imm
		s.have = false
	}
	return placed
}

// writeBut places all packets of a WRITE train but the last, which no receive buffer waits for.
func (q *QP) writeBut(r *run, p *Packet, v verdict) verdict {
	s := &q.resp
	if v != notReady || p.N == 1 {
		return v
	}
	k := p.N - 1
	p.head(k)
	if v := r.store(q, s.rkey, s.va, p.Payload, p.Len, false); v != placed {
		return v
	}
	s.va += uint64(p.Len)
	s.remain -= p.Len
	s.in = true
	s.psn = psnAdd(s.psn, k)
	return notReady
}

// releaseRecvs frees the slots of the receive buffers taken.
func (q *QP) releaseRecvs() {
	if q.resp.taken {
		q.resp.taken = false
		q.takes.Release()
	}
}

// takeRecv takes the next receive buffer.
func (q *QP) takeRecv() verdict {
	s := &q.resp
	if s.have { // of a message that was lost on the way (UC, UD)
		return placed
	}
	s.rw.SGL = s.rw.SGL[:0]
	s.rw.Bad = false
	if q.takes != nil {
		if !q.takes.Take(&s.rw) {
			return notReady
		}
		s.taken = true
	} else if !q.source.Next(&s.rw) {
		return notReady
	}
	s.have = true
	if s.rw.Bad {
		return badWork
	}
	return placed
}

// acceptRead remembers a READ to be answered.
func (q *QP) acceptRead(r *run, p *Packet) verdict {
	s := &q.resp
	switch {
	case s.in:
		return invalid
	case q.attr.Access&ci.RemoteRead == 0:
		return unsupported
	case p.DMALen > maxMessage, int(q.attr.RespRes) <= s.fresh():
		return invalid
	}
	if p.DMALen > 0 { // refused now: what comes behind a bad request is not executed. Each train of the answer looks again.
		if _, ok := r.holds.remote(q.hca, q, p.RKey, p.VA, uint64(p.DMALen), ci.RemoteRead); !ok {
			return access
		}
	}
	n := q.packets(p.DMALen)
	s.msn = (s.msn + 1) & psnMask
	q.remember(response{psn: s.psn, first: s.psn, n: n, npkts: n, va: p.VA, rkey: p.RKey, length: p.DMALen, msn: s.msn})
	s.psn = psnAdd(s.psn, n)
	return placed
}

// packets is how many packets a message of n bytes has.
func (q *QP) packets(n uint32) uint32 {
	if n == 0 {
		return 1
	}
	return uint32((uint64(n) + uint64(q.mtu) - 1) / uint64(q.mtu))
}

// acceptAtomic executes an atomic, and remembers its result for duplicates.
func (q *QP) acceptAtomic(r *run, p *Packet) verdict {
	s := &q.resp
	switch {
	case s.in, int(q.attr.RespRes) <= s.fresh(), p.VA%8 != 0:
		return invalid
	case q.attr.Access&ci.RemoteAtomic == 0:
		return unsupported
	}
	m, ok := r.holds.remote(q.hca, q, p.RKey, p.VA, 8, ci.RemoteAtomic)
	if !ok {
		return access
	}
	orig, err := m.atomic(p.Op, p.Swap, p.Compare)
	if err != nil {
		return access
	}
	s.msn = (s.msn + 1) & psnMask
	q.remember(response{atomic: true, psn: s.psn, first: s.psn, n: 1, npkts: 1, orig: orig, msn: s.msn})
	s.psn = psnAdd(s.psn, 1)
	return placed
}

// remember queues an answer, and keeps it for duplicates in the place of the oldest.
func (q *QP) remember(a response) {
	s := &q.resp
	s.out = append(s.out, a)
	s.ackDue = false // the answer acknowledges everything before it
	if len(s.hist) < int(q.attr.RespRes) {
		s.hist = append(s.hist, a)
		return
	}
	s.hist[s.hpos] = a
	s.hpos = (s.hpos + 1) % len(s.hist)
}

// duplicate answers an old request again (IBTA volume 1, 9.7.5.1.2).
func (q *QP) duplicate(_ *run, p *Packet) {
	s := &q.resp
	q.hca.count.add(DropDuplicate, int(p.N))
	s.refilling(q)
	switch p.Op {
	case wire.OpSend, wire.OpWrite:
		s.ackDue = true
		return
	}
	atomic := p.Op != wire.OpReadRequest
	if len(s.out) > 2*int(q.attr.RespRes) {
		return // it will be asked for again
	}
	for i := range s.hist {
		a := s.hist[i]
		d := psnDiff(p.PSN, a.first)
		if a.atomic != atomic || d < 0 || d >= int32(a.npkts) {
			continue
		}
		if !atomic {
			skip := uint64(d) * uint64(q.mtu)
			n := q.packets(p.DMALen)
			if p.RKey != a.rkey || p.VA != a.va+skip || skip+uint64(p.DMALen) > uint64(a.length) || uint32(d)+n > a.npkts {
				return
			}
			a.first, a.psn, a.va = p.PSN, p.PSN, p.VA
			a.length, a.n, a.npkts = p.DMALen, n, n
		}
		a.again = true
		s.out = append(s.out, a)
		return
	}
}

// fresh counts the answers that are due to new requests.
func (s *responder) fresh() int {
	n := 0
	for i := range s.out {
		if !s.out[i].again {
			n++
		}
	}
	return n
}

// respond sends what is due and the quantum pays for: answers in order, then a NAK or the acknowledgement. An acknowledgement may wait when a
// consumer's poll drives this run: it goes out behind the consumer's next post, or when the port finds nothing more to receive.
func (q *QP) respond(r *run) {
	s := &q.resp
	if q.service != wire.RC {
		return
	}
	for len(s.out) > 0 {
		if r.left.isSpent() {
			r.more = true
			return // an acknowledgement must not overtake the answers
		}
		if !q.sendResponse(r, &s.out[0]) {
			s.out = s.out[:0]
			return
		}
		if s.out[0].n > 0 {
			continue
		}
		s.out = append(s.out[:0], s.out[1:]...)
		s.unack = 0
	}
	if s.nakDue {
		s.nakDue = false
		q.sendAck(r, s.nak, s.nakPSN)
		q.lastAck(r) // of what came behind the gap's end in the same delivery
		if s.failed {
			q.toError(r)
		}
		return
	}
	switch {
	case !s.ackDue:
	case r.polled && s.unack < ackEvery:
		q.ackWaits.Store(true)
		if !q.ackQueued.Swap(true) {
			q.port.deferAck(q)
		}
	default:
		q.lastAck(r)
	}
}

// settle sends an acknowledgement that still waits for the consumer's next post, for there will be none: the consumer has its messages,
// and the peer must not time out over them. With the token held.
func (q *QP) settle() {
	if !q.resp.ackDue {
		return
	}
	r := newRun(q)
	q.lastAck(r)
	r.send()
	r.free()
}

// lastAck sends the acknowledgement that is due, for the last request executed. There is none while answers before it are to be sent.
func (q *QP) lastAck(r *run) {
	if q.resp.ackDue && len(q.resp.out) == 0 {
		q.resp.ackDue = false
		if q.ackWaits.Load() {
			q.ackWaits.Store(false)
		}
		q.sendAck(r, wire.ACK(wire.CreditsInvalid), psnAdd(q.resp.psn, psnMask))
	}
}

func (q *QP) sendAck(r *run, syn wire.Syndrome, psn ci.PSN) {
	p := r.packet()
	p.Op, p.Start, p.End = wire.OpAcknowledge, true, true
	p.Syndrome, p.MSN, p.PSN = syn, q.resp.msn, psn
	q.resp.unack = 0
}

// sendResponse sends one answer, or as much of it as the quantum pays for. False: the QP failed over it.
func (q *QP) sendResponse(r *run, a *response) bool {
	if a.atomic {
		p := r.packet()
		p.Op, p.Start, p.End = wire.OpAtomicAcknowledge, true, true
		p.Syndrome, p.MSN, p.PSN, p.Swap = wire.ACK(wire.CreditsInvalid), a.msn, a.psn, a.orig
		a.n = 0
		r.left.spend(1, 8)
		return true
	}
	most := uint32(max(q.port.hints.MaxTrain, int(q.mtu))) / q.mtu
	for a.n > 0 && !r.left.isSpent() {
		done := a.npkts - a.n
		n := r.left.train(min(a.n, most), q.mtu)
		off := uint64(done) * uint64(q.mtu)
		size := uint32(min(uint64(a.length)-off, uint64(n)*uint64(q.mtu)))
		r.room(16)
		p := r.packet()
		first := r.nsegs
		if size > 0 {
			m, ok := r.holds.remote(q.hca, q, a.rkey, a.va+off, uint64(size), ci.RemoteRead)
			if !ok {
				r.unpacket()
				q.readFault(r, a)
				return false
			}
			if !r.view(m, size) {
				r.unpacket()
				r.nsegs = first
				switch {
				case r.npkts > 0:
					r.send()
				case most > 1:
					most = max(min(most/2, runBuffer/q.mtu), 1)
				case !r.flat:
					r.flat = true // as in fill
				default:
					q.readFault(r, a)
					return false
				}
				continue
			}
		}
		r.flat = false
		p.Op, p.Start, p.End = wire.OpReadResponse, done == 0, n == a.n
		p.Syndrome, p.MSN = wire.ACK(wire.CreditsInvalid), a.msn
		p.PSN, p.N, p.Len, p.Payload = a.psn, n, size, r.segs[first:r.nsegs]
		a.psn = psnAdd(a.psn, n)
		a.n -= n
		r.left.spend(n, size)
	}
	return true
}

// readFault refuses a READ whose memory cannot be had, at the packet where that shows.
func (q *QP) readFault(r *run, a *response) {
	s := &q.resp
	q.hca.count.add(CountInvalidNak, 1)
	s.out = s.out[:0]
	s.nakDue, s.ackDue = false, false
	q.sendAck(r, wire.NAKRemoteAccess, a.psn)
	q.notify.event(ci.EventWQAccessError, 0, 0)
	q.toError(r)
}
