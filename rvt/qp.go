package rvt

import (
	"sync"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/wire"
)

// QP is a queue pair.
//
// Its engine is run by whoever holds its token, mu: the poster, a port's goroutine, a timer. Who finds the token taken marks the QP
// and leaves; the holder looks at the mark after letting go (decision 3). All fields below mu are the holder's.
type QP struct {
	ci.UnimplementedQP
	refs    // multicast attachments
	notify  notifier
	pd      *PD
	ca      *CA
	hca     *HCA
	num     ci.QPN
	typ     ci.QPType
	service wire.Service
	caps    ci.QPCaps
	flags   ci.QPFlags
	sendCQ  *CQ
	recvCQ  *CQ
	srq     *SRQ
	faces   struct {
		send, recv ci.CQ
		srq        ci.SRQ
	} // as the consumer gave them
	sq         SendRing
	rq         RecvRing   // nil with an SRQ
	source     RecvSource // rq or srq
	takes      RecvBatch  // rq, if it has that
	bytes      int64      // of HCA.queues; guarded by mu
	lateSQ     bool       // sq is made when a state is entered in which sends are posted; guarded by mu
	gone       atomic.Bool
	state      atomic.Uint32 // ci.QPState, written with the token held
	sqMu, rqMu sync.Mutex    // posters
	bind       *bindPost     // with sqMu
	timeWait   atomic.Int64  // until when the number is quarantined, nanoseconds of the clock; 0: not

	pending   atomic.Bool          // the mark
	renew     atomic.Bool          // the port's P_Key table or MTU has changed
	ackQueued atomic.Bool          // in port.acks
	ackWaits  atomic.Bool          // an acknowledgement is due that waits for the consumer's next post
	queued    atomic.Bool          // in a port's run queue
	due       atomic.Bool          // a deadline has passed
	behind    *QP                  // the next in the run queue, with its lock
	home      atomic.Pointer[port] // where packets may come in: the primary path's port,
	home2     atomic.Pointer[port] // and the alternate's
	inMu      sync.Mutex
	inbox     []Packet // copies, for a token holder who is up the stack
	inBytes   int64    // of HCA.inboxes, held by inbox

	mu      sync.Mutex // the token
	attr    ci.QPAttr
	port    *port
	altPort *port
	mtu     uint32
	pkey    ci.PKey
	route   Route
	peer    Addr
	altPeer Addr
	altRt   Route
	apm     migration
	timer   clock.Deadline
	timerAt time.Duration // what the wheel was last told; 0: fired since
	rest    bool          // the last turn left work
	req     requester
	resp    responder
	origin  origin
}

func (q *QP) current() ci.QPState { return ci.QPState(q.state.Load()) }

// kick runs a turn of the engine if the token is free; else its holder does.
func (q *QP) kick() {
	b := newQuantum()
	q.kickWith(&b)
}

// kickWith is kick with what is left of a quantum.
func (q *QP) kickWith(b *quantum) {
	q.pending.Store(true)
	q.serve(b)
}

// serve runs turns until no mark is left, another goroutine has the token, or it has run so many that the rest must wait.
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

// unlock gives the token back, and serves marks left meanwhile.
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

// turn runs the engine once with the token held: pkts, what waits in the inbox, new work, responses. It sends and executes no more than b
// pays for, and nothing while work of an earlier turn waits in the run queue. If work is left, the QP is in the run queue afterwards.
func (q *QP) turn(polled bool, pkts []Packet, b *quantum) {
	r := newRun(q)
	r.polled, r.left = polled, *b
	waits := q.rest && q.queued.Load()
	if waits {
		r.left = quantum{}
	}
	if q.pending.Swap(false) {
		if q.renew.Swap(false) {
			q.loadPort()
		}
		q.readInbox(r)
		r.polled = false
	}
	for i := range pkts {
		q.receive(r, &pkts[i])
	}
	q.progress(r)
	if !waits {
		*b = r.left
	}
	r.finish()
	q.rest = r.more
	r.free()
	if q.rest {
		q.enqueueTurn()
	}
}

// enqueueTurn puts the QP at the end of its port's run queue, unless it waits there already.
func (q *QP) enqueueTurn() {
	if q.queued.Swap(true) {
		return
	}
	p := q.home.Load()
	if p == nil {
		p = q.hca.ports[0]
	}
	p.turns.add(q)
}

// takeTurn is the QP's turn in the run queue.
func (q *QP) takeTurn() {
	if q.gone.Load() {
		return
	}
	if q.due.Swap(false) {
		q.tick()
	}
	q.kick()
}

// loadPort takes over what the QP has from its port: the P_Key, where an index that names nothing any more gives a key that matches none, and
// of datagrams, which have no path of their own, the MTU that the port has now (IBTA volume 1, 9.8.3). A connection's MTU is that of its
// path, and stays (11.2.5.2).
func (q *QP) loadPort() {
	if q.port == nil {
		return
	}
	q.pkey, _ = q.port.pkey(q.attr.Primary.PKeyIndex)
	if q.service == wire.UD {
		q.mtu = uint32(q.port.attr.Load().MTU.Bytes())
	}
}

// progress does what the QP can do now and the quantum pays for. Half of the quantum is for responses, if any are due, so that neither
// direction of a connection delays the other.
func (q *QP) progress(r *run) {
	switch q.current() {
	case ci.QPRTS, ci.QPSQD, ci.QPSQDraining:
		var rest quantum
		if len(q.resp.out) > 0 {
			rest = r.left.half()
		}
		q.transmit(r)
		r.left.join(rest)
	case ci.QPSQError:
		q.flushSends(r)
	case ci.QPError:
		q.flushSends(r)
		q.flushRecvs(r)
	}
	q.respond(r)
	q.setTimer()
}

// deliver takes packets for this QP from a port.
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

// receivesAt tells whether the QP takes packets that come in at p.
func (q *QP) receivesAt(p *port) bool {
	return q.home.Load() == p || q.home2.Load() == p
}

// setState changes the state, with the token held.
func (q *QP) setState(s ci.QPState) {
	q.attr.State = s
	if q.lateSQ && s >= ci.QPRTS {
		q.makeSendRing()
	}
	q.state.Store(uint32(s))
	if f := q.hca.cfg.Ops.QPState; f != nil {
		f(q.num, s)
	}
}
