package kernelcm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/cmevents"
	abi "ciddk/internal/ucmabi"
	"ciddk/mad"
)

// conn implements cm.Conn.
type conn struct {
	s      *Service
	x      *kernelID // nil until the peer has accepted
	events cmevents.Queue

	mu      sync.Mutex
	state   cm.State
	request cm.Request
	reply   *mad.REP
	stop    func() bool         // ends the reaction to the end of a step's context
	done    func([]byte, error) // of the step that waits for an event
}

var (
	_ cm.Conn     = (*conn)(nil)
	_ cm.Notifier = (*conn)(nil)
)

// connParam returns the parameters of an event of a connection.
func connParam(e *abi.EventResp) (p abi.ConnParam) {
	_, _ = binary.Decode(e.Param[:], ne, &p) // it has room
	return p
}

// private returns the private data of an event of a connection, or nil.
func private(e *abi.EventResp) []byte {
	p := connParam(e)
	if p.PrivateDataLen == 0 {
		return nil
	}
	return padded(p.PrivateData[:], p.PrivateDataLen, int(p.PrivateDataLen))
}

// replied takes the answer of the peer.
func (c *conn) replied(x *kernelID, cfg *cm.ConnectConfig, e *abi.EventResp) error {
	p := connParam(e)
	rep := &mad.REP{LocalQPN: p.QPNum, ResponderRes: p.InitiatorDepth, InitiatorDepth: p.ResponderResources,
		FlowControl: p.FlowControl != 0, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ != 0}
	copy(rep.PrivateData[:], p.PrivateData[:p.PrivateDataLen])
	req := cm.Request{Primary: cfg.Primary, REQ: mad.REQ{LocalQPN: uint32(cfg.QP.Num), ServiceID: cfg.Service,
		ResponderRes: cfg.ResponderResources, InitiatorDepth: cfg.InitiatorDepth, FlowControl: cfg.FlowControl,
		RetryCount: cfg.RetryCount, RNRRetryCount: cfg.RNRRetry, SRQ: cfg.QP.SRQ}}
	copy(req.PrivateData[:], cfg.Private)
	c.mu.Lock()
	c.x, c.state = x, cm.StateREPRcvd
	c.reply, c.request = rep, req
	c.mu.Unlock()
	return c.s.add("Service.Connect", c)
}

// event receives the events of an accepted or requested connection.
func (c *conn) event(e *abi.EventResp) {
	c.mu.Lock()
	was := c.state
	if was == cm.StateClosed { // the event was read before Close
		c.mu.Unlock()
		return
	}
	switch e.Event {
	case abi.EventEstablished:
		c.state = cm.StateEstablished
		c.mu.Unlock()
		c.finish(nil, nil)
		c.events.Emit(cm.Event{Type: cm.EventEstablished, Private: private(e)})
	case abi.EventDisconnected:
		if was == cm.StateDREQSent || was == cm.StateDREQRcvd {
			c.state = cm.StateTimeWait
			c.mu.Unlock()
			if !c.finish(private(e), nil) && was == cm.StateDREQSent {
				c.events.Emit(cm.Event{Type: cm.EventDisconnected, Private: private(e)})
			}
			return
		}
		c.state = cm.StateDREQRcvd
		c.mu.Unlock()
		c.finish(nil, nil) // a DREQ establishes the connection, since the RTU was lost
		c.events.Emit(cm.Event{Type: cm.EventDisconnect, Private: private(e)})
	case abi.EventTimewaitExit:
		c.state = cm.StateClosed
		c.mu.Unlock()
		c.events.Emit(cm.Event{Type: cm.EventTimeWaitExit})
	case abi.EventRejected, abi.EventUnreachable, abi.EventConnectError, abi.EventDeviceRemoval:
		c.state = cm.StateClosed
		c.mu.Unlock()
		err := failure(e)
		if !c.finish(nil, err) {
			typ := map[uint32]cm.EventType{abi.EventRejected: cm.EventRejected,
				abi.EventDeviceRemoval: cm.EventDisconnected}[e.Event]
			if typ == 0 {
				typ = cm.EventUnreachable
			}
			c.events.Emit(cm.Event{Type: typ, Private: private(e), Err: err})
		}
		c.events.Emit(cm.Event{Type: cm.EventTimeWaitExit})
	default:
		c.mu.Unlock()
	}
}

// begin starts a step that an event ends. state is the one during the step.
func (c *conn) begin(ctx context.Context, verb string, to cm.State, run func() error, done func([]byte, error),
	from ...cm.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.in(verb, from...); err != nil {
		return err
	}
	if c.done != nil {
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "another step is in progress"}
	}
	was := c.state
	c.state, c.done = to, done
	if err := run(); err != nil { // no event is handled meanwhile, since mu is held
		c.state, c.done = was, nil
		return err
	}
	c.stop = context.AfterFunc(ctx, func() { c.finish(nil, ctx.Err()) })
	return nil
}

// in returns an error unless the connection is in one of some states. mu is held.
func (c *conn) in(verb string, states ...cm.State) error {
	if slices.Contains(states, c.state) {
		return nil
	}
	if c.state == cm.StateClosed {
		return closedError(verb)
	}
	return &ci.Error{Verb: verb, Status: ci.InvalidState,
		Detail: fmt.Sprintf("the connection is in the state %v", c.state)}
}

// finish ends the step that waits, and reports whether there is one.
func (c *conn) finish(private []byte, err error) bool {
	c.mu.Lock()
	done, stop := c.done, c.stop
	c.done, c.stop = nil, nil
	c.mu.Unlock()
	if done == nil {
		return false
	}
	if stop != nil {
		stop()
	}
	done(private, err)
	return true
}

// inOrder delivers the outcome of a step in order with the events of the connection.
func (c *conn) inOrder(done func([]byte, error)) func([]byte, error) {
	return func(p []byte, err error) { c.events.Deliver(func() { done(p, err) }) }
}

// Accept implements cm.Conn.
func (c *conn) Accept(ctx context.Context, cfg cm.AcceptConfig) error {
	_, err := wait(func(done func([]byte, error)) error { return c.accept(ctx, "Conn.Accept", &cfg, done) })
	return err
}

// StartAccept implements cm.Conn.
func (c *conn) StartAccept(ctx context.Context, cfg cm.AcceptConfig, done func(error)) error {
	return c.accept(ctx, "Conn.StartAccept", &cfg, c.inOrder(func(_ []byte, err error) { done(err) }))
}

func (c *conn) accept(ctx context.Context, verb string, cfg *cm.AcceptConfig, done func([]byte, error)) error {
	if err := checkPrivate(verb, cfg.Private, mad.REPPrivateLen); err != nil {
		return err
	}
	p := abi.ConnParam{QPNum: uint32(cfg.QP.Num), SRQ: flag(cfg.QP.SRQ), ResponderResources: cfg.ResponderResources,
		InitiatorDepth: cfg.InitiatorDepth, FlowControl: flag(cfg.FlowControl), RNRRetryCount: cfg.RNRRetry, Valid: 1}
	p.PrivateDataLen = uint8(copy(p.PrivateData[:], cfg.Private))
	return c.begin(ctx, verb, cm.StateREPSent, func() error {
		if err := c.x.d.do(abi.CmdAccept, &abi.Accept{UID: c.x.uid, Param: p, ID: c.x.num}, nil); err != nil {
			return err
		}
		c.reply = &mad.REP{LocalQPN: p.QPNum, ResponderRes: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
			FlowControl: cfg.FlowControl, RNRRetryCount: p.RNRRetryCount, SRQ: cfg.QP.SRQ}
		copy(c.reply.PrivateData[:], cfg.Private)
		return nil
	}, func(_ []byte, err error) {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			_ = c.Close() // it returns no error
		}
		c.events.OnEvent(cfg.OnEvent)
		done(nil, err)
	}, cm.StateREQRcvd)
}

// Notify implements cm.Notifier.
func (c *conn) Notify(f func(cm.Conn, cm.Event)) { c.events.OnEvent(f) }

// Confirm implements cm.Conn. The kernel's RTU has no private data of a program.
func (c *conn) Confirm(private []byte) error {
	const verb = "Conn.Confirm"
	if len(private) > 0 {
		return unsupported(verb, "private data of an RTU")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.in(verb, cm.StateREPRcvd); err != nil {
		return err
	}
	if err := c.x.d.do(abi.CmdAccept, &abi.Accept{UID: c.x.uid, ID: c.x.num}, nil); err != nil {
		return err
	}
	c.state = cm.StateEstablished
	return nil
}

// Established implements cm.Conn.
func (c *conn) Established() error {
	return c.call("Conn.Established", abi.CmdNotify, func() any {
		return &abi.Notify{ID: c.x.num, Event: abi.CommEstablished}
	}, cm.StateREPSent)
}

// call executes a command in some states, without an event.
func (c *conn) call(verb string, cmd uint32, q func() any, states ...cm.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.in(verb, states...); err != nil {
		return err
	}
	return c.x.d.do(cmd, q(), nil)
}

// Delay implements cm.Conn. The kernel requests more time itself.
func (c *conn) Delay(mad.TimeExp, []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in("Conn.Delay", cm.StateREQRcvd, cm.StateREPRcvd)
}

// Reject implements cm.Conn. The reason that the peer receives is consumer.
func (c *conn) Reject(_ mad.RejReason, _, private []byte) error {
	const verb = "Conn.Reject"
	if err := checkPrivate(verb, private, mad.REJPrivateLen); err != nil {
		return err
	}
	q := &abi.Reject{}
	q.PrivateDataLen = uint8(copy(q.PrivateData[:], private))
	err := c.call(verb, abi.CmdReject, func() any {
		q.ID = c.x.num
		return q
	}, cm.StateREQRcvd, cm.StateREPRcvd)
	if err == nil {
		_ = c.Close() // it returns no error
	}
	return err
}

// Handoff implements cm.Conn.
func (c *conn) Handoff(mad.ServiceID) error { return unsupported("Conn.Handoff", "it") }

// LoadAlternate implements cm.Conn.
func (c *conn) LoadAlternate(context.Context, cm.AlternateConfig) (*mad.APR, error) {
	return nil, unsupported("Conn.LoadAlternate", "alternate paths")
}

// StartLoadAlternate implements cm.Conn.
func (c *conn) StartLoadAlternate(context.Context, cm.AlternateConfig, func(*mad.APR, error)) error {
	return unsupported("Conn.StartLoadAlternate", "alternate paths")
}

// AnswerAlternate implements cm.Conn.
func (c *conn) AnswerAlternate(mad.APRStatus, []byte, []byte) error {
	return unsupported("Conn.AnswerAlternate", "alternate paths")
}

// AlternateAttr implements cm.Conn.
func (c *conn) AlternateAttr() (ci.QPField, ci.QPAttr, error) {
	return 0, ci.QPAttr{}, unsupported("Conn.AlternateAttr", "alternate paths")
}

// Migrated implements cm.Conn.
func (c *conn) Migrated() error {
	return c.call("Conn.Migrated", abi.CmdNotify, func() any {
		return &abi.Notify{ID: c.x.num, Event: abi.PathMigrated}
	}, cm.StateEstablished)
}

// Disconnect implements cm.Conn. The kernel's DREQ has no private data of a program.
func (c *conn) Disconnect(ctx context.Context, private []byte) ([]byte, error) {
	return wait(func(done func([]byte, error)) error { return c.disconnect(ctx, "Conn.Disconnect", private, done) })
}

// StartDisconnect implements cm.Conn.
func (c *conn) StartDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error {
	return c.disconnect(ctx, "Conn.StartDisconnect", private, c.inOrder(done))
}

func (c *conn) disconnect(ctx context.Context, verb string, private []byte, done func([]byte, error)) error {
	if len(private) > 0 {
		return unsupported(verb, "private data of a DREQ")
	}
	return c.begin(ctx, verb, cm.StateDREQSent, func() error {
		return c.x.d.do(abi.CmdDisconnect, &abi.Disconnect{ID: c.x.num}, nil)
	}, done, cm.StateEstablished, cm.StateREPSent)
}

// AnswerDisconnect implements cm.Conn.
func (c *conn) AnswerDisconnect(private []byte) error {
	const verb = "Conn.AnswerDisconnect"
	if len(private) > 0 {
		return unsupported(verb, "private data of a DREP")
	}
	c.mu.Lock()
	err := c.in(verb, cm.StateDREQRcvd)
	if err == nil {
		if err = c.x.d.do(abi.CmdDisconnect, &abi.Disconnect{ID: c.x.num}, nil); err == nil {
			c.state = cm.StateTimeWait
		}
	}
	c.mu.Unlock()
	if err == nil {
		c.events.Emit(cm.Event{Type: cm.EventDisconnected})
	}
	return err
}

// ID implements cm.Conn: the number of the kernel's ID.
func (c *conn) ID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.x == nil {
		return 0
	}
	return c.x.num
}

// RemoteID implements cm.Conn. The kernel does not tell it.
func (c *conn) RemoteID() uint32 { return 0 }

// State implements cm.Conn.
func (c *conn) State() cm.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Request implements cm.Conn.
func (c *conn) Request() *cm.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return new(c.request)
}

// Reply implements cm.Conn.
func (c *conn) Reply() *mad.REP {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reply == nil {
		return nil
	}
	return new(*c.reply)
}

// QPAttr implements cm.Conn.
func (c *conn) QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error) {
	c.mu.Lock()
	x := c.x
	c.mu.Unlock()
	if x == nil {
		return 0, ci.QPAttr{}, &ci.Error{Verb: "Conn.QPAttr", Status: ci.InvalidState,
			Detail: "the attributes are not known before the answer"}
	}
	return x.qpAttr(to)
}

// TimeWait implements cm.Conn. The kernel keeps the number of the connection, and not that of the QP.
func (c *conn) TimeWait() time.Duration { return 0 }

// Next implements cm.Conn.
func (c *conn) Next(ctx context.Context) (cm.Event, error) {
	return c.events.Next(ctx, closedError("Conn.Next"))
}

// Close implements cm.Conn. The kernel rejects or disconnects.
func (c *conn) Close() error {
	c.mu.Lock()
	x := c.x
	c.state = cm.StateClosed
	c.mu.Unlock()
	if x != nil {
		x.destroy()
	}
	c.finish(nil, closedError("Conn"))
	c.events.Finish()
	c.s.remove(c)
	return nil
}

// newConn returns the connection of a request, whose event a listener has received.
func (s *Service) newConn(service mad.ServiceID, e *abi.EventResp) (*conn, error) {
	c := &conn{s: s, state: cm.StateREQRcvd}
	c.events.Init(c, nil)
	c.x = s.d.add(c.event)
	c.x.num = e.ID
	if err := c.read(service, e); err != nil {
		_ = c.Close() // it returns no error
		return nil, err
	}
	return c, s.add("Listener.Accept", c)
}

// read makes the REQ of a request from what the kernel tells of it.
func (c *conn) read(service mad.ServiceID, e *abi.EventResp) error {
	a, err := c.x.addresses()
	if err != nil {
		return err
	}
	set, attr, err := c.x.qpAttr(ci.QPRTR)
	if err != nil {
		return err
	}
	transport := mad.ServiceRC
	if set&ci.QPFieldRespRes == 0 {
		transport = mad.ServiceUC
	}
	p := connParam(e)
	r := &c.request
	r.REQ = mad.REQ{ServiceID: service, LocalQPN: p.QPNum, ResponderRes: p.InitiatorDepth,
		InitiatorDepth: p.ResponderResources, Service: transport, FlowControl: p.FlowControl != 0,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ != 0, PKey: uint16(a.pkey),
		StartingPSN: uint32(attr.SQPSN), Primary: mad.CMPath{LocalGID: a.peer, RemoteGID: a.localGID,
			LocalLID: uint16(attr.Primary.AV.DLID)}}
	h, err := mad.NewIPCM(a.remote, a.local.Addr())
	if err != nil {
		return err
	}
	h.Put(r.PrivateData[:])
	copy(r.PrivateData[mad.IPCMLen:], p.PrivateData[:p.PrivateDataLen])
	av := attr.Primary.AV
	av.Port = a.port.Num
	r.Primary = cm.Path{Port: a.port, AV: av, PKey: a.pkey, MTU: attr.MTU}
	r.From = mads.Address{AV: av, QPN: 1}
	return nil
}
