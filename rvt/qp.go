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
	req     requester
	resp    responder
	origin  origin
}

// inboxLimit bounds what waits for a busy QP; a transport recovers from what is dropped beyond it.
const inboxLimit = 1024

func (q *QP) current() ci.QPState { return ci.QPState(q.state.Load()) }

// kick asks for a turn of the engine: by the caller if the token is free, else by its holder.
func (q *QP) kick() {
	q.pending.Store(true)
	q.serve()
}

// serve gives the engine turns until no mark is left or somebody else has the token.
func (q *QP) serve() {
	for q.pending.Load() {
		if !q.mu.TryLock() {
			return // the holder sees the mark
		}
		q.turn(false, nil)
		q.mu.Unlock()
	}
}

// unlock gives the token back, and serves marks left meanwhile.
func (q *QP) unlock() {
	q.mu.Unlock()
	if q.pending.Load() {
		q.serve()
	}
}

// turn runs the engine once with the token held: pkts, what waits in the inbox, new work, responses.
func (q *QP) turn(polled bool, pkts []Packet) {
	r := newRun(q)
	r.polled = polled
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
	r.finish()
	r.free()
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

// progress does everything that the QP can do now.
func (q *QP) progress(r *run) {
	switch q.current() {
	case ci.QPRTS, ci.QPSQD, ci.QPSQDraining:
		q.transmit(r)
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
func (q *QP) deliver(pkts []Packet, wait, polled bool) {
	if wait {
		q.mu.Lock()
	} else if !q.mu.TryLock() {
		q.enqueue(pkts)
		q.kick()
		return
	}
	q.turn(polled, pkts)
	q.unlock()
}

// enqueue copies packets for the holder of the token.
func (q *QP) enqueue(pkts []Packet) {
	q.inMu.Lock()
	defer q.inMu.Unlock()
	for i := range pkts {
		p := pkts[i]
		if n := len(q.inbox); n > 0 && p.supersedes(&q.inbox[n-1]) {
			q.inbox[n-1] = p
			continue
		}
		size := packetBytes + int64(p.Len) + int64(len(p.GRH))
		if len(q.inbox) >= inboxLimit || q.inBytes+size > q.hca.inboxes.limit/inboxShare || !q.hca.inboxes.take(size) {
			q.hca.count.add(DropBusy, 1)
			continue
		}
		q.inBytes += size
		if p.Len > 0 {
			b := make([]byte, 0, p.Len)
			for _, s := range p.Payload {
				b = append(b, s...)
			}
			p.Payload = [][]byte{b[:p.Len]}
		}
		if p.GRH != nil {
			p.GRH = append([]byte(nil), p.GRH...)
		}
		q.inbox = append(q.inbox, p)
	}
}

// emptyInbox takes the bytes of the inbox out of the count. q.inMu is held.
func (q *QP) emptyInbox() {
	if q.inBytes > 0 {
		q.hca.inboxes.give(q.inBytes)
		q.inBytes = 0
	}
}

func (q *QP) readInbox(r *run) {
	for {
		q.inMu.Lock()
		list := q.inbox
		q.inbox = nil
		q.emptyInbox()
		q.inMu.Unlock()
		if list == nil {
			return
		}
		for i := range list {
			q.receive(r, &list[i])
		}
		if cap(list) <= 16 { // keep a small one, so that control packets cost nothing
			clear(list)
			q.inMu.Lock()
			if q.inbox == nil {
				q.inbox = list[:0]
				q.inMu.Unlock()
				return
			}
			q.inMu.Unlock()
		}
	}
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

// setTimer makes sure that the wheel knows of the earliest deadline.
func (q *QP) setTimer() {
	at := q.req.retryAt
	if q.req.rnrAt != 0 && (at == 0 || q.req.rnrAt < at) {
		at = q.req.rnrAt
	}
	if at != 0 && (q.timerAt == 0 || at < q.timerAt) {
		q.timerAt = at
		q.hca.wheel.Set(&q.timer, at)
	}
}

// expire is the timer's function.
func (q *QP) expire() {
	q.mu.Lock()
	q.timerAt = 0
	now := q.hca.clock.Now()
	if q.req.rnrAt != 0 && q.req.rnrAt <= now {
		q.req.rnrAt = 0
	}
	if q.req.retryAt != 0 && q.req.retryAt <= now {
		q.req.retryAt = 0
		r := newRun(q)
		q.timedOut(r)
		r.finish()
		r.free()
	}
	q.turn(false, nil)
	q.unlock()
}

func (h *HCA) eachQP(f func(*QP)) {
	h.qps.all(f)
	for _, p := range h.ports {
		for i := range p.special {
			if q := p.special[i].Load(); q != nil {
				f(q)
			}
		}
	}
}

// deadline is d from now.
func (q *QP) deadline(d time.Duration) time.Duration { return q.hca.clock.Now() + d }
