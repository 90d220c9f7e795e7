package services

import (
	"context"
	"sync"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/cmevents"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/mad"
)

// conn implements cm.Conn.
type conn struct {
	remote

	events cmevents.Queue

	attrMu sync.Mutex
	attr   *schema.CMConnReply // of the last query; final after Close
	final  bool
}

var _ cm.Conn = (*conn)(nil)

// newConn adds a connection. The daemon may be lost, which is an event, as soon as it has been added.
func (s *Services) newConn(verb string, onEvent func(cm.Conn, cm.Event)) (*conn, error) {
	c := &conn{}
	c.events.Init(c, onEvent)
	c.remote = remote{s: s, handle: c.event}
	var err error
	c.token, err = s.add(verb, c, c.take)
	return c, err
}

// event is called with the notice of an event.
func (c *conn) event(n *schema.Notice) {
	if n.Kind != schema.NoticeEvent {
		return
	}
	e := cm.Event{Type: cm.EventType(n.Event), Err: convert.Error(&n.Error)}
	if len(n.Private) > 0 {
		e.Private = n.Private
	}
	if len(n.Message) == mad.CMDataLen {
		e.LAP = new(mad.LAP)
		e.LAP.Parse(n.Message)
	}
	if n.HasPath {
		e.Path = new(convert.Path(&n.Path))
	}
	c.events.Emit(e)
}

// deliver queues the outcome of a step.
func (c *conn) deliver(f func()) { c.events.Deliver(f) }

// Next implements cm.Conn.
func (c *conn) Next(ctx context.Context) (cm.Event, error) {
	return c.events.Next(ctx, closedError("Conn.Next"))
}

// disconnect ends the connection because the daemon has exited.
func (c *conn) disconnect() {
	if c.end(lostError("Conn")) {
		c.events.Emit(cm.Event{Type: cm.EventDisconnected, Err: lostError("Conn")})
		c.events.Emit(cm.Event{Type: cm.EventTimeWaitExit})
	}
}

// Close implements cm.Conn.
func (c *conn) Close() error {
	c.query() // ID, TimeWait and so on remain available
	c.attrMu.Lock()
	c.final = true
	c.attrMu.Unlock()
	c.events.Finish()
	return c.close("Conn.Close")
}

// query returns the attributes. After Close, they are those before Close; without any, they are zero.
func (c *conn) query() *schema.CMConnReply {
	c.attrMu.Lock()
	defer c.attrMu.Unlock()
	if !c.final {
		h, err := c.target()
		r := new(schema.CMConnReply)
		if err == nil && h != 0 && c.s.c.Do(schema.CmdCMConn, &schema.CMConn{Conn: h}, r) == nil {
			c.attr = r
		}
	}
	if c.attr == nil {
		return new(schema.CMConnReply)
	}
	return c.attr
}

// known returns the attributes that do not change, without a query if there was one.
func (c *conn) known() *schema.CMConnReply {
	c.attrMu.Lock()
	r := c.attr
	c.attrMu.Unlock()
	if r != nil {
		return r
	}
	return c.query()
}

// ID implements cm.Conn.
func (c *conn) ID() uint32 { return c.known().ID }

// RemoteID implements cm.Conn.
func (c *conn) RemoteID() uint32 { return c.query().RemoteID }

// State implements cm.Conn. The state of a connection that was closed, or whose daemon has exited, is StateClosed.
func (c *conn) State() cm.State {
	if _, err := c.target(); err != nil {
		return cm.StateClosed
	}
	return cm.State(c.query().State)
}

// Request implements cm.Conn.
func (c *conn) Request() *cm.Request {
	a := c.query()
	if a.ID == 0 {
		return nil
	}
	r := &cm.Request{Primary: convert.Path(&a.Primary), From: convert.Address(&a.From)}
	r.REQ.Parse(a.REQ[:])
	if a.HasAlternate {
		r.Alternate = new(convert.Path(&a.Alternate))
	}
	return r
}

// Reply implements cm.Conn.
func (c *conn) Reply() *mad.REP {
	a := c.query()
	if !a.HasReply {
		return nil
	}
	r := new(mad.REP)
	r.Parse(a.REP[:])
	return r
}

// TimeWait implements cm.Conn.
func (c *conn) TimeWait() time.Duration { return time.Duration(c.query().TimeWait) }

// inOrder is the delivery of an event-driven form: in order with the events of the connection.
func inOrder[T any](c *conn, done func(T, error)) func(T, error) {
	return func(t T, err error) { c.deliver(func() { done(t, err) }) }
}

// Accept implements cm.Conn.
func (c *conn) Accept(ctx context.Context, cfg cm.AcceptConfig) error {
	_, err := wait(func(done func(struct{}, error)) error { return c.accept(ctx, "Conn.Accept", cfg, done) })
	return err
}

// StartAccept implements cm.Conn.
func (c *conn) StartAccept(ctx context.Context, cfg cm.AcceptConfig, done func(error)) error {
	const verb = "Conn.StartAccept"
	if done == nil {
		return invalid(verb, "done is nil")
	}
	return c.accept(ctx, verb, cfg, inOrder(c, func(_ struct{}, err error) { done(err) }))
}

func (c *conn) accept(ctx context.Context, verb string, cfg cm.AcceptConfig, done func(struct{}, error)) error {
	if err := checkLen(verb, "Private", cfg.Private, maxPrivate); err != nil {
		return err
	}
	outcome := func(_ *schema.Notice, err error) { done(struct{}{}, err) }
	return c.start(ctx, func(n *schema.Notice, err error) {
		c.events.OnEvent(cfg.OnEvent)
		outcome(n, err)
	}, schema.CmdCMReply, func(op uint64, h schema.Handle) any {
		return &schema.CMReply{Conn: h, Op: op, QP: convert.ToQP(&cfg.QP), ResponderResources: cfg.ResponderResources,
			InitiatorDepth: cfg.InitiatorDepth, RNRRetry: cfg.RNRRetry, Failover: uint8(cfg.Failover),
			FlowControl: cfg.FlowControl, Private: cfg.Private}
	})
}

// Disconnect implements cm.Conn.
func (c *conn) Disconnect(ctx context.Context, private []byte) ([]byte, error) {
	return wait(func(done func([]byte, error)) error { return c.startDisconnect(ctx, private, done) })
}

// StartDisconnect implements cm.Conn.
func (c *conn) StartDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error {
	if done == nil {
		return invalid("Conn.StartDisconnect", "done is nil")
	}
	return c.startDisconnect(ctx, private, inOrder(c, done))
}

func (c *conn) startDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error {
	if err := checkLen("Conn.Disconnect", "private", private, maxPrivate); err != nil {
		return err
	}
	return c.start(ctx, func(n *schema.Notice, err error) {
		if err != nil || len(n.Private) == 0 {
			done(nil, err)
			return
		}
		done(n.Private, nil)
	}, schema.CmdCMConnCall, func(op uint64, h schema.Handle) any {
		return &schema.CMConnCall{Conn: h, Op: op, Call: schema.CMDisconnect, Private: private}
	})
}

// LoadAlternate implements cm.Conn.
func (c *conn) LoadAlternate(ctx context.Context, cfg cm.AlternateConfig) (*mad.APR, error) {
	return wait(func(done func(*mad.APR, error)) error { return c.loadAlternate(ctx, cfg, done) })
}

// StartLoadAlternate implements cm.Conn.
func (c *conn) StartLoadAlternate(ctx context.Context, cfg cm.AlternateConfig, done func(*mad.APR, error)) error {
	if done == nil {
		return invalid("Conn.StartLoadAlternate", "done is nil")
	}
	return c.loadAlternate(ctx, cfg, inOrder(c, done))
}

func (c *conn) loadAlternate(ctx context.Context, cfg cm.AlternateConfig, done func(*mad.APR, error)) error {
	if err := checkLen("Conn.LoadAlternate", "Private", cfg.Private, maxPrivate); err != nil {
		return err
	}
	return c.start(ctx, func(n *schema.Notice, err error) {
		var apr *mad.APR
		if n != nil && len(n.Message) == mad.CMDataLen {
			apr = new(mad.APR)
			apr.Parse(n.Message)
		}
		done(apr, err)
	}, schema.CmdCMLoadAlternate, func(op uint64, h schema.Handle) any {
		return &schema.CMLoadAlternate{Conn: h, Op: op, Path: convert.ToPath(&cfg.Path), Private: cfg.Private}
	})
}

// call calls a method that has no outcome.
func (c *conn) call(verb string, q schema.CMConnCall) error {
	if err := checkLen(verb, "private", q.Private, maxPrivate); err != nil {
		return err
	}
	if err := checkLen(verb, "info", q.Info, maxInfo); err != nil {
		return err
	}
	h, err := c.target()
	if err != nil {
		return err
	}
	q.Conn = h
	return c.s.do(schema.CmdCMConnCall, &q)
}

// Confirm implements cm.Conn.
func (c *conn) Confirm(private []byte) error {
	return c.call("Conn.Confirm", schema.CMConnCall{Call: schema.CMConfirm, Private: private})
}

// Established implements cm.Conn.
func (c *conn) Established() error {
	return c.call("Conn.Established", schema.CMConnCall{Call: schema.CMEstablished})
}

// Delay implements cm.Conn.
func (c *conn) Delay(t mad.TimeExp, private []byte) error {
	return c.call("Conn.Delay", schema.CMConnCall{Call: schema.CMDelay, Value: uint64(t), Private: private})
}

// Reject implements cm.Conn.
func (c *conn) Reject(reason mad.RejReason, info, private []byte) error {
	return c.call("Conn.Reject", schema.CMConnCall{Call: schema.CMReject, Value: uint64(reason), Info: info,
		Private: private})
}

// Handoff implements cm.Conn.
func (c *conn) Handoff(service mad.ServiceID) error {
	err := c.call("Conn.Handoff", schema.CMConnCall{Call: schema.CMHandoff, Value: uint64(service)})
	if err == nil {
		_ = c.Close() // it has ended
	}
	return err
}

// AnswerAlternate implements cm.Conn.
func (c *conn) AnswerAlternate(status mad.APRStatus, info, private []byte) error {
	return c.call("Conn.AnswerAlternate", schema.CMConnCall{Call: schema.CMAnswerAlternate, Value: uint64(status),
		Info: info, Private: private})
}

// AnswerDisconnect implements cm.Conn.
func (c *conn) AnswerDisconnect(private []byte) error {
	return c.call("Conn.AnswerDisconnect", schema.CMConnCall{Call: schema.CMAnswerDisconnect, Private: private})
}

// Migrated implements cm.Conn.
func (c *conn) Migrated() error {
	return c.call("Conn.Migrated", schema.CMConnCall{Call: schema.CMMigrated})
}

// QPAttr implements cm.Conn.
func (c *conn) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	return c.qpAttr(schema.CMQPAttr{State: to})
}

// AlternateAttr implements cm.Conn.
func (c *conn) AlternateAttr() (ci.QPField, ci.QPAttr, error) {
	return c.qpAttr(schema.CMQPAttr{Alternate: true})
}

func (c *conn) qpAttr(q schema.CMQPAttr) (ci.QPField, ci.QPAttr, error) {
	h, err := c.target()
	if err != nil {
		return 0, ci.QPAttr{}, err
	}
	q.Conn = h
	var r schema.CMQPAttrReply
	if err := c.s.c.Do(schema.CmdCMQPAttr, &q, &r); err != nil {
		return 0, ci.QPAttr{}, err
	}
	return r.Set, r.Attr.CI(), nil
}
