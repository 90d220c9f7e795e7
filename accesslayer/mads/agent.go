package mads

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"ciddk/accesslayer"
	"ciddk/accesslayer/internal/hold"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// agent implements Agent.
type agent struct {
	e   *endpoint
	cfg AgentConfig
	hi  uint32 // upper half of the transaction IDs of its requests

	once    *hold.Once
	closing atomic.Bool
	closed  chan struct{} // closed at the end of Close
	queue   chan *Received
	calls   hold.Mutex // held during OnReceive

	// Guarded by e.mu.
	txs map[uint32]*tx // by the lower half of the transaction ID
	lo  uint32         // lower half of the last request's
}

const verbSend, verbDo, verbStartDo, verbRecv = "Agent.Send", "Agent.Do", "Agent.StartDo", "Agent.Recv"

func (e *endpoint) register(verb string, cfg AgentConfig) (Agent, error) {
	cfg.Methods = append([]mad.Method(nil), cfg.Methods...)
	if cfg.Queue == 0 {
		cfg.Queue = defaultQueue
	}
	a := &agent{e: e, cfg: cfg, hi: e.p.m.nextAgent(), once: hold.NewOnce(), closed: make(chan struct{}),
		calls: hold.NewMutex(),
		txs:   make(map[uint32]*tx)}
	if len(cfg.Methods) > 0 && cfg.OnReceive == nil {
		a.queue = make(chan *Received, cfg.Queue)
	}
	if err := e.take(verb, a); err != nil {
		return nil, err
	}
	if len(cfg.Methods) > 0 {
		e.p.announce(cfg.Class)
	}
	return a, nil
}

// take adds an agent to the table.
func (e *endpoint) take(verb string, a *agent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: "the port is being removed",
			Err: accesslayer.ErrClosed}
	}
	t, err := e.table.Load().with(verb, a)
	if err == nil {
		e.table.Store(t)
	}
	return err
}

// Port implements Agent.
func (a *agent) Port() Port { return a.e.p.id }

// check returns an error for an invalid message, and reports whether the message is sent by RMPP.
func (a *agent) check(verb string, m *Message) (long bool, err error) {
	bad := func(format string, args ...any) (bool, error) {
		return false, &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
	}
	if m == nil {
		return bad("the Message is nil")
	}
	b := m.MAD
	if len(b) < mad.HeaderLen {
		return bad("MAD of %d bytes, want %d", len(b), mad.Size)
	}
	class := mad.Class(b[1])
	switch {
	case b[0] != mad.BaseVersion:
		return bad("MAD with base version %d, want %d", b[0], mad.BaseVersion)
	case isSubnet(class) != a.cfg.SubnetManagement:
		return bad("MAD of class %v (agents with SubnetManagement send classes of subnet management, others all "+
			"other classes)", class)
	case a.cfg.Class != 0 && canonical(class) != canonical(a.cfg.Class):
		return bad("MAD of class %v from an agent of class %v", class, a.cfg.Class)
	case len(b) != mad.Size && !a.cfg.RMPP:
		return bad("MAD of %d bytes from an agent without RMPP, want %d", len(b), mad.Size)
	}
	if a.cfg.RMPP {
		seg, _ := mad.SegmentationOf(class)
		if len(b) < seg.HeaderLen || len(b) > a.e.p.m.cfg.MaxMessage {
			return bad("MAD of %d bytes, want %d to %d (Config.MaxMessage)", len(b), seg.HeaderLen,
				a.e.p.m.cfg.MaxMessage)
		}
		var r mad.RMPP
		r.Parse(b[mad.HeaderLen:])
		long = len(b) != mad.Size || r.Active()
	}
	return long, a.e.check(verb, &m.To)
}

// closedError returns the error of an agent that is closed.
func (a *agent) closedError(verb string) error {
	return closedError(verb, fmt.Sprintf("agent %q is closed", a.cfg.Name))
}

// admit returns an error if the agent cannot send now. e.mu is held.
func (a *agent) admit(verb string) error {
	switch {
	case a.closing.Load() || a.e.closed:
		return a.closedError(verb)
	case a.e.full():
		return &ci.Error{Verb: verb, Status: ci.InsufficientResources,
			Detail: fmt.Sprintf("%d datagrams wait for the port's send queue (wait, or raise Config.QueueLimit)",
				a.e.queue.n)}
	}
	return nil
}

// Send implements Agent.
func (a *agent) Send(m *Message) error {
	long, err := a.check(verbSend, m)
	if err != nil {
		return err
	}
	e := a.e
	e.mu.Lock()
	defer e.unlock()
	if err := a.admit(verbSend); err != nil {
		return err
	}
	if long {
		return e.transfers.begin(verbSend, a, &m.To, bytes.Clone(m.MAD), m, nil)
	}
	return e.transmit(&m.To, m.MAD, nil)
}

// transmit sends or queues a datagram; t is its transaction, or nil. e.mu is held, and the caller releases it with
// unlock.
func (e *endpoint) transmit(to *Address, b []byte, t *tx) error {
	if mad.Class(b[1]) == mad.ClassSubnetDirected {
		c := ci.MAD(b)
		switch e.p.h.sma.Depart(e.p.id.Num, &c).Action {
		case sma.Deliver: // for this port itself
			if t != nil {
				e.sent(t)
			}
			e.p.count.sent.Add(1)
			e.local.take(nil, &c)
			return nil
		case sma.Discard:
			return &ci.Error{Verb: verbSend, Status: ci.InvalidParameter, Detail: "the directed route does not begin " +
				"at this port (check hop pointer, hop count and InitialPath[1])"}
		}
		b = c[:]
	}
	s, err := e.enqueue(to, b)
	if err != nil {
		return err
	}
	s.tx = t
	return nil
}

// Do implements Agent.
func (a *agent) Do(ctx context.Context, m *Message) (*Received, error) {
	ended := make(chan struct{})
	t, err := a.request(ctx, verbDo, m, func(*tx) { close(ended) })
	if err != nil {
		return nil, err
	}
	select {
	case <-ended:
	case <-ctx.Done():
		t.cancel(ctx)
		<-ended
	}
	return t.answer, t.err
}

// StartDo implements Agent.
func (a *agent) StartDo(ctx context.Context, m *Message, done func(*Received, error)) error {
	if done == nil {
		return &ci.Error{Verb: verbStartDo, Status: ci.InvalidParameter, Detail: "done is nil"}
	}
	t, err := a.request(ctx, verbStartDo, m, func(t *tx) { go done(t.answer, t.err) })
	if err == nil && ctx.Done() != nil {
		t.watch(ctx)
	}
	return err
}

// request sends a request, and returns its transaction. ended is called once, when the transaction has ended, with e.mu
// held; it does not block.
func (a *agent) request(ctx context.Context, verb string, m *Message, ended func(*tx)) (*tx, error) {
	long, err := a.check(verb, m)
	if err != nil {
		return nil, err
	}
	var h mad.Header
	if h.Parse(m.MAD); isResponse(&h) {
		return nil, &ci.Error{Verb: verb, Status: ci.InvalidParameter,
			Detail: fmt.Sprintf("%v is a response (use Send)", h.Method)}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e := a.e
	t := newTx(a, &h, m)
	e.mu.Lock()
	err = a.admit(verb)
	if err == nil {
		for a.lo++; a.txs[a.lo] != nil; a.lo++ { // after 2^32 requests, an old one may still be pending
		}
		t.lo = a.lo
		binary.BigEndian.PutUint64(t.msg[8:], uint64(a.hi)<<32|uint64(t.lo))
		a.txs[t.lo], t.ended = t, ended
		if long {
			err = e.transfers.begin(verb, a, &t.to, t.msg, m, t)
		} else {
			err = e.transmit(&t.to, t.msg, t)
		}
		if err != nil {
			t.ended = nil
			e.finish(t, nil, err)
		}
	}
	e.unlock()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Recv implements Agent.
func (a *agent) Recv(ctx context.Context) (*Received, error) {
	select {
	case r := <-a.queue:
		return r, nil
	default:
	}
	select {
	case r := <-a.queue:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.closed:
	}
	select { // take what was queued before Close
	case r := <-a.queue:
		return r, nil
	default:
		return nil, a.closedError(verbRecv)
	}
}

// deliver passes an unsolicited datagram to OnReceive or to the queue of Recv.
func (a *agent) deliver(r *Received) {
	a.calls.Lock()
	defer a.calls.Unlock()
	switch {
	case a.closing.Load():
		a.e.p.count.drop(DropUnclaimed)
	case a.cfg.OnReceive != nil:
		a.cfg.OnReceive(r)
	default:
		select {
		case a.queue <- r:
		default:
			a.e.p.count.drop(DropQueue)
		}
	}
}

// Close implements Agent.
func (a *agent) Close() error {
	a.once.Do(func() {
		e := a.e
		e.mu.Lock()
		a.closing.Store(true)
		e.table.Store(e.table.Load().without(a))
		for _, t := range a.txs {
			e.finish(t, nil, a.closedError(verbDo))
		}
		e.transfers.forget(a)
		e.unlock()
		if len(a.cfg.Methods) > 0 {
			e.p.announce(a.cfg.Class)
		}
		a.calls.Lock() // wait for a running callback
		defer a.calls.Unlock()
		close(a.closed)
	})
	return nil
}
