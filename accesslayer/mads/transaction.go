package mads

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// tx is a request that waits for its response. It is queued, then sent, which starts its timer, and then ends. e.mu
// guards the fields that change.
type tx struct {
	a      *agent
	lo     uint32
	class  mad.Class
	userID uint64
	to     Address
	peer   peer   // the zero value matches any peer
	msg    []byte // in buf, if it is one datagram
	buf    ci.MAD
	out    *outgoing // the transfer, if it is sent by RMPP

	timeout time.Duration
	retries int
	limit   int           // bytes of the response; 0: Config.MaxMessage
	at      time.Duration // the deadline; 0: the timer has not started
	timer   clock.Deadline
	late    lateness

	over   bool
	answer *Received
	err    error
	ended  func(*tx)   // called once over; nil while the request has not begun
	stop   func() bool // ends the wait for the context of StartDo; nil: none
}

const defaultTimeout = time.Second

func newTx(a *agent, h *mad.Header, m *Message) *tx {
	t := &tx{a: a, class: h.Class, userID: h.TID, to: m.To, timeout: m.Timeout, retries: max(m.Retries, 0),
		limit: max(m.MaxResponse, 0)}
	t.msg = append(t.buf[:0], m.MAD...)
	if h.Class != mad.ClassSubnetDirected { // responses arrive from the end of the route
		t.peer = a.e.p.peerOf(&m.To.AV)
	}
	if t.timeout <= 0 {
		t.timeout = defaultTimeout
	}
	t.timer.Fire = t.expire
	return t
}

// sent starts the timer. e.mu is held.
func (e *endpoint) sent(t *tx) {
	if !t.over {
		t.at = e.p.m.al.Clock().Elapsed() + t.timeout
		e.p.m.wheel.Set(&t.timer, t.at)
	}
}

// finish ends a transaction, unless it has ended. e.mu is held.
func (e *endpoint) finish(t *tx, answer *Received, err error) {
	if t.over {
		return
	}
	t.over, t.answer, t.err = true, answer, err
	delete(t.a.txs, t.lo)
	e.p.m.wheel.Cancel(&t.timer)
	if t.out != nil && !t.out.over {
		if answer == nil {
			e.transfers.abort(t.out, mad.RMPPUnspecified)
		} else { // a response means that the peer has all segments
			e.transfers.dropOut(t.out)
		}
	}
	if t.stop != nil {
		t.stop()
	}
	if t.ended != nil {
		t.ended(t)
	}
}

// cancel ends the transaction with the error of a context that has ended. A transaction that has ended keeps its
// result.
func (t *tx) cancel(ctx context.Context) {
	e := t.a.e
	e.mu.Lock()
	defer e.unlock()
	e.finish(t, nil, ctx.Err())
}

// watch cancels the transaction when the context ends before it. With contexts of package context, no goroutine exists
// until then.
func (t *tx) watch(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { t.cancel(ctx) })
	e := t.a.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.stop = stop; t.over {
		stop()
	}
}

// expire is called by the timer.
func (t *tx) expire() {
	e := t.a.e
	e.mu.Lock()
	defer e.unlock()
	switch {
	case t.over || t.at == 0:
		return
	case t.at > e.p.m.al.Clock().Elapsed():
		e.p.m.wheel.Set(&t.timer, t.at)
		return
	case !e.isLate(&t.late, &t.timer, t.at, t.timeout):
		return
	case t.retries == 0:
		e.p.count.timedOut.Add(1)
		e.finish(t, nil, &ci.Error{Verb: verbDo, Status: ci.Timeout, Detail: fmt.Sprintf("no response to %v in %v",
			t.class, t.timeout)})
		return
	}
	t.retries--
	t.at = 0
	if t.out != nil { // the peer has acknowledged all segments, so sending again is useless
		e.sent(t)
		return
	}
	e.p.count.retried.Add(1)
	if err := e.transmit(&t.to, t.msg, t); err != nil {
		e.finish(t, nil, err)
	}
}

// isFrom reports whether a response may come from p.
func (t *tx) isFrom(p peer) bool {
	switch want := t.peer; {
	case want == peer{}:
		return true
	case want.gid != ci.GID{}:
		return p.gid == want.gid && (want.lid == 0 || p.lid == want.lid)
	default:
		return p.lid == want.lid
	}
}

// waiting returns the request that a response belongs to, or nil. e.mu is held.
func (e *endpoint) waiting(h *mad.Header, r *Received) *tx {
	a := e.table.Load().agents[uint32(h.TID>>32)]
	if a == nil {
		return nil
	}
	t := a.txs[uint32(h.TID)]
	if t == nil || t.class != h.Class || !t.isFrom(e.p.peerOf(&r.From.AV)) {
		return nil
	}
	return t
}

// respond ends the request that a response belongs to.
func (e *endpoint) respond(h *mad.Header, r *Received) {
	e.mu.Lock()
	defer e.unlock()
	t := e.waiting(h, r)
	if t == nil {
		e.p.count.drop(DropUnmatched)
		return
	}
	binary.BigEndian.PutUint64(r.MAD[8:], t.userID)
	e.finish(t, r, nil)
}

// exceeds reports whether a response of n bytes is longer than the request admits. t may be nil: a message that is no
// response.
func (t *tx) exceeds(n int) bool { return t != nil && t.limit > 0 && n > t.limit }

// tooLong returns the error of a request whose response is too long.
func (t *tx) tooLong() error {
	return &ci.Error{Verb: verbDo, Status: ci.InsufficientResources, Detail: fmt.Sprintf("the response is longer than "+
		"%d bytes (Message.MaxResponse)", t.limit)}
}
