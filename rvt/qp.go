package rvt

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/ci/driver"
	"ciddk/clock"
	"ciddk/wire"
)

// QP is a queue pair: the object of the verbs, the token of its engine, and the two halves of the engine.
//
// The engine is run by whichever goroutine holds the token, mu: a poster, a port's goroutine, a timer. A goroutine that
// finds the token taken marks the QP and leaves; the holder looks at the mark after letting go. No caller waits for
// another's turn. The fields below mu, and those of the endpoint that it guards, are the holder's.
type QP struct {
	ci.UnimplementedQP
	refs driver.Refs // multicast attachments
	endpoint
	faces struct {
		send, recv ci.CQ
		srq        ci.SRQ
	} // as the consumer passed them
	destroyed  atomic.Bool
	sqMu, rqMu sync.Mutex   // posters
	bind       *bindPost    // with sqMu
	timeWait   atomic.Int64 // until when the number is quarantined, nanoseconds of the clock; 0: not

	pending   atomic.Bool // the mark
	renew     atomic.Bool // the port's P_Key table or MTU has changed
	ackQueued atomic.Bool // in port.acks
	wait      waiter      // in the port's run queue
	inbox     inbox

	mu      sync.Mutex // the token
	bytes   int64      // of device.queues
	timer   clock.Deadline
	timerAt time.Duration // what the wheel was last set to; 0: fired since
	rest    bool          // the last turn left work
	req     requester
	resp    responder
}

// kick runs a turn of the engine if the token is free. Otherwise its holder runs one.
func (q *QP) kick() {
	b := newQuantum()
	q.kickWith(&b)
}

// kickWith is kick with what is left of a quantum.
func (q *QP) kickWith(b *quantum) {
	q.pending.Store(true)
	q.serve(b)
}

// serve runs turns until no mark is left, another goroutine has the token, or it has run serveTurns of them. Then the
// rest waits in the run queue.
func (q *QP) serve(b *quantum) {
	for range serveTurns {
		if !q.pending.Load() || !q.mu.TryLock() {
			return // a holder of the token sees the mark
		}
		q.turn(false, nil, b)
		q.mu.Unlock()
	}
	if q.pending.Load() {
		q.enqueueTurn()
	}
}

// unlock releases the token and runs turns for marks that others have left.
func (q *QP) unlock() {
	b := newQuantum()
	q.unlockWith(&b)
}

// unlockWith is unlock with what is left of a quantum.
func (q *QP) unlockWith(b *quantum) {
	q.mu.Unlock()
	if q.pending.Load() {
		q.serve(b)
	}
}

// turn runs the engine once: it handles pkts and the packets in the inbox, sends new work and answers. The caller holds
// the token. The turn sends and executes no more than b allows, and nothing while work of an earlier turn waits in the
// run queue. If work is left, the QP is in the run queue afterwards.
func (q *QP) turn(polled bool, pkts []Packet, b *quantum) {
	t := newTurn(&q.endpoint)
	had := b.slice(q.states != nil)
	t.polled, t.left = polled, had
	waits := q.rest && q.wait.queued.Load()
	if waits {
		t.left = quantum{}
	}
	if q.pending.Swap(false) {
		if q.renew.Swap(false) {
			q.loadPort()
		}
		q.readInbox(t)
		t.polled = false
	}
	q.receiveAll(t, pkts)
	q.progress(t)
	if !waits {
		b.packets -= had.packets - t.left.packets
		b.bytes -= had.bytes - t.left.bytes
	}
	t.finish()
	q.setRest(t.more && (waits || b.isSpent()))
	if t.more && !q.rest {
		q.pending.Store(true) // the next slice
	}
	t.free()
	if q.rest {
		q.enqueueTurn()
	}
}

// enqueueTurn puts the QP at the end of its port's run queue, unless it waits there already.
func (q *QP) enqueueTurn() {
	if q.wait.queued.Swap(true) {
		return
	}
	p := q.home.Load()
	if p == nil {
		p = q.dev.ports[0]
	}
	p.turns.add(&q.wait)
}

// takeTurn implements turnTaker.
func (q *QP) takeTurn() {
	if q.destroyed.Load() {
		return
	}
	if q.wait.due.Swap(false) {
		q.tick()
	}
	q.kick()
}

// setRest sets whether the last turn left work. The caller holds the token.
func (q *QP) setRest(rests bool) {
	if q.rest != rests && q.pd.process != nil {
		q.pd.process.setResting(q, rests)
	}
	q.rest = rests
}

// settle implements settler.
func (q *QP) settle() {
	for range settleTurns {
		q.mu.Lock()
		rests := q.rest && !q.destroyed.Load()
		if rests {
			b := newQuantum()
			q.setRest(false) // it does not wait for its place in the run queue
			q.turn(false, nil, &b)
		}
		q.unlock()
		if !rests {
			return
		}
	}
}

// deferAck implements responderHost.
func (q *QP) deferAck() {
	if !q.ackQueued.Swap(true) {
		q.port.acks.add(q)
	}
}

// flushAck implements ackHolder.
func (q *QP) flushAck(left quantum) quantum {
	q.ackQueued.Store(false)
	if q.ackWaits.Load() { // else it went out behind the consumer's post
		q.kickWith(&left)
	}
	return left
}

// progress does what the state and the quantum allow. Half of the quantum is reserved for responses if any are due, so
// that neither direction of a connection delays the other.
func (q *QP) progress(t *turn) {
	switch q.current() {
	case ci.QPRTS, ci.QPSQD, ci.QPSQDraining:
		var rest quantum
		if len(q.resp.out) > 0 {
			rest = t.left.half()
		}
		q.req.transmit(t)
		t.left.join(rest)
	case ci.QPSQError:
		q.req.flushSends(t)
	case ci.QPError:
		q.req.flushSends(t)
		q.resp.flushRecvs(t)
	}
	q.resp.respond(t)
	q.setTimer()
}

// enqueue copies packets to the inbox, for the holder of the token.
func (q *QP) enqueue(pkts []Packet) {
	if n := q.inbox.put(pkts, &q.dev.inboxes); n > 0 {
		q.dev.count.add(DropBusy, n)
	}
}

// readInbox takes a quantum of packets from the inbox. What is left waits for the next turn.
func (q *QP) readInbox(t *turn) {
	list, more := q.inbox.take(&q.dev.inboxes)
	if len(list) == 0 {
		return
	}
	if more {
		q.pending.Store(true)
	}
	q.receiveAll(t, list)
	if !more {
		q.inbox.keep(list)
	}
}

// deliver handles packets that a port has received for the QP.
func (q *QP) deliver(pkts []Packet, wait, polled bool, b *quantum) {
	if wait {
		q.mu.Lock()
	} else if !q.mu.TryLock() {
		q.enqueue(pkts)
		q.kickWith(b)
		return
	}
	q.turn(polled, pkts, b)
	q.unlockWith(b)
}

// toError takes the QP to Error and begins to flush it. A turn must follow for what exceeds the quantum.
func (q *QP) toError(t *turn) {
	if q.current() == ci.QPError {
		return
	}
	q.resp.lastAck(t)
	q.setState(ci.QPError)
	q.req.flushSends(t)
	q.resp.flushRecvs(t)
	if q.srq != nil {
		q.notify.Event(ci.Event{Type: ci.EventLastWQE})
	}
}

// fatal takes the QP to Error for a fault that no packet or request has caused.
func (q *QP) fatal() {
	q.mu.Lock()
	if st := q.current(); st != ci.QPReset && st != ci.QPError {
		t := newTurn(&q.endpoint)
		q.notify.Event(ci.Event{Type: ci.EventQPFatal})
		q.toError(t)
		t.finish()
		t.free()
		q.pending.Store(true)
	}
	q.unlock()
}

// receiveAll handles packets. The caller holds the token.
func (q *QP) receiveAll(t *turn, pkts []Packet) {
	for i := range pkts {
		if t.mustSettle() {
			q.resp.settleLate(t)
		}
		q.receive(t, &pkts[i])
	}
	q.resp.settleLate(t)
}

// receive handles one packet or train. The caller holds the token.
func (q *QP) receive(t *turn, p *Packet) {
	st := q.current()
	switch {
	case st == ci.QPReset || st == ci.QPInit || st == ci.QPError:
		q.dev.count.add(DropQPState, int(p.N))
		return
	case p.Service == wire.Congestion:
		q.notified(p)
		return
	case p.Service != q.service:
		q.dev.count.add(DropService, int(p.N))
		return
	case q.service == wire.UD:
		q.resp.receiveDatagram(t, p)
		return
	case p.Entropy != q.origin.entropy && q.isFromPeer(p) && !q.admitEntropy(p):
		return
	case !q.checkMigReq(p):
		q.dropAddress(p)
		return
	case !pkeyMatch(p.PKey, q.pkey):
		q.dev.count.add(DropPKey, int(p.N))
		q.port.badPKey(p)
		return
	case p.N == 1 || p.isTrain(q.mtu):
	case p.isTrain(p.MTU): // of another path MTU
		q.receiveCut(t, p)
		return
	default:
		q.dev.count.add(DropMalformed, 1)
		return
	}
	q.dispatch(t, p)
}

// receiveCut handles a train of packets that are not of the path's MTU as the packets that it consists of. Each has an
// answer of its own then: how many packets a port joins to a train shows in no answer.
func (q *QP) receiveCut(t *turn, p *Packet) {
	for ; p.N > 1; p.trim(1) {
		first := *p
		first.head(1)
		q.dispatch(t, &first)
	}
	q.dispatch(t, p)
}

// dispatch passes a packet or train from the peer to the half of the QP that it is for. The caller holds the token.
func (q *QP) dispatch(t *turn, p *Packet) {
	st := q.current()
	if st == ci.QPError { // an earlier packet of the same train was refused
		q.dev.count.add(DropQPState, int(p.N))
		return
	}
	if p.CE {
		q.marked(t, p)
	}
	if q.service == wire.UC && p.Op != wire.OpSend && p.Op != wire.OpWrite {
		q.dev.count.add(DropService, int(p.N))
		return
	}
	switch p.Op {
	case wire.OpSend, wire.OpWrite, wire.OpReadRequest, wire.OpCompareSwap, wire.OpFetchAdd, wire.OpAtomicWrite,
		wire.OpFlush:
		if q.service == wire.UC {
			q.resp.requestUC(t, p)
		} else {
			q.resp.request(t, p)
		}
	default:
		if st < ci.QPRTS {
			q.dev.count.add(DropResponse, 1)
			return
		}
		if q.resp.settleLate(t) {
			q.req.answer(t, p)
		}
	}
}

// PeerActivity implements ci.PeerActivity.
func (q *QP) PeerActivity() uint64 {
	q.mu.Lock()
	defer q.unlock()
	return q.origin.count.Accepted
}

// expire is the timer's function.
func (q *QP) expire() {
	q.wait.due.Store(true)
	q.enqueueTurn()
}

// tick acts on the deadlines that have passed. The turn that follows sends, and sets the timer again.
func (q *QP) tick() {
	q.mu.Lock()
	q.timerAt = 0
	now := q.dev.clock.Elapsed()
	if q.req.rnrAt != 0 && q.req.rnrAt <= now {
		q.req.rnrAt = 0
	}
	if q.req.paceAt != 0 && q.req.paceAt <= now {
		q.req.paceAt = 0
	}
	if q.resp.gapAt != 0 && q.resp.gapAt <= now {
		q.resp.gapStays()
	}
	if q.req.nakAt != 0 && q.req.nakAt <= now {
		t := newTurn(&q.endpoint)
		q.req.nakStays(t)
		t.finish()
		t.free()
	}
	late, p, mark := q.req.isLate(now), q.port, q.req.lateMark
	q.mu.Unlock()
	if !late || p == nil {
		return
	}
	// The acknowledgement may have arrived and not been delivered: in the port, or in the inbox of a QP that was busy.
	mark, caughtUp := p.catchUp(mark)
	q.mu.Lock()
	t := newTurn(&q.endpoint)
	q.readInbox(t)
	if q.req.isLate(q.dev.clock.Elapsed()) && (caughtUp && q.inbox.isEmpty() || !q.req.postpone(mark)) {
		q.req.retryAt, q.req.lateness = 0, lateness{}
		q.req.timedOut(t)
	}
	t.finish()
	t.free()
	q.pending.Store(true)
	q.unlock()
}
