package cm

import (
	"context"

	"ciddk/ci"
	"ciddk/mad"
)

// Accept implements Conn.
func (c *conn) Accept(ctx context.Context, cfg AcceptConfig) error {
	s, ended := waitingStep()
	if err := c.startAccept(ctx, "Conn.Accept", cfg, s); err != nil {
		return err
	}
	<-ended
	return s.err
}

// StartAccept implements Conn.
func (c *conn) StartAccept(ctx context.Context, cfg AcceptConfig, done func(error)) error {
	const verb = "Conn.StartAccept"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	return c.startAccept(ctx, verb, cfg, c.callbackStep(func(s *step) { done(s.err) }))
}

// startAccept sends the REP. s ends when the connection is established.
func (c *conn) startAccept(ctx context.Context, verb string, cfg AcceptConfig, s *step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkPrivate(verb, cfg.Private, mad.REPPrivateLen); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callAccept); err != nil {
		return err
	}
	if services[cfg.QP.Type] != c.req.Service || cfg.QP.Type != ci.RC && cfg.QP.Type != ci.UC {
		return invalid(verb, "QP.Type %v: the request is for %v", cfg.QP.Type, c.req.Service)
	}
	if cfg.QP.StartPSN == 0 {
		cfg.QP.StartPSN = c.qp.StartPSN
	}
	attr := c.port.a.Attr()
	r := mad.REP{LocalCommID: c.id, RemoteCommID: c.remoteID, LocalQPN: uint32(cfg.QP.Num), StartingPSN: uint32(cfg.QP.StartPSN),
		ResponderRes:   min(cut(cfg.ResponderResources, attr.MaxRespResPerQP), c.req.InitiatorDepth),
		InitiatorDepth: min(cut(cfg.InitiatorDepth, attr.MaxInitDepthPerQP), c.req.ResponderRes),
		TargetAckDelay: mad.TimeExp(attr.AckDelay), Failover: cfg.Failover, FlowControl: cfg.FlowControl, RNRRetryCount: cfg.RNRRetry,
		SRQ: cfg.QP.SRQ, LocalCAGUID: uint64(attr.GUID)}
	alternate := c.alternate
	switch {
	case alternate == nil:
		r.Failover = mad.FailoverAccepted
	case !attr.Caps.Has(ci.CapAPM):
		r.Failover = mad.FailoverNotSupported
	}
	copy(r.PrivateData[:], cfg.Private)
	if err := checked(verb, &r); err != nil {
		return err
	}
	if r.Failover != mad.FailoverAccepted {
		c.alternate = nil
	}
	c.rep, c.qp, c.accepted, c.state, c.left = r, cfg.QP, true, StateREPSent, c.req.MaxCMRetries
	if c.onEvent == nil && cfg.OnEvent != nil {
		c.onEvent = cfg.OnEvent
		c.wake()
	}
	c.begin(ctx, s, func() { c.giveUp(ctx.Err()) })
	c.m.mu.Lock()
	c.m.noteReplied(c)
	c.m.mu.Unlock()
	c.put(c.tid, &r)
	c.setDue(c.interval())
	return nil
}

// establish ends a request's waiting for its RTU; c.mu is held.
func (c *conn) establish() {
	c.state, c.due, c.sent = StateEstablished, 0, nil
	c.m.count.established.Add(1)
	c.m.mu.Lock()
	if c.counted {
		c.m.debts.complete(&c.from, c.m.clock.Now())
	}
	c.m.settle(c)
	c.m.mu.Unlock()
	c.finish(nil)
}

// noteRTU tells of the RTU once; c.mu is held.
func (c *conn) noteRTU(r *mad.RTU) bool {
	if c.active || c.rtu {
		return false
	}
	c.rtu = true
	c.emit(Event{Type: EventEstablished, Private: r.PrivateData[:]})
	return true
}

// Established implements Conn.
func (c *conn) Established() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callEstablished); err != nil {
		return err
	}
	if c.state != StateEstablished { // the RTU may have been faster
		c.establish()
	}
	return nil
}

// Delay implements Conn.
func (c *conn) Delay(t mad.TimeExp, private []byte) error {
	const verb = "Conn.Delay"
	if err := checkPrivate(verb, private, mad.MRAPrivateLen); err != nil {
		return err
	}
	if t > mad.MaxTimeExp {
		return invalid(verb, "the time is above %d", uint8(mad.MaxTimeExp))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callDelay); err != nil {
		return err
	}
	switch c.state {
	case StateREQRcvd, StateMRAREQSent:
		c.delay(mad.WhichREQ, t, private)
	case StateREPRcvd, StateMRAREPSent:
		c.delay(mad.WhichREP, t, private)
	default:
		return c.delayLoading(t, private)
	}
	return nil
}

// Reject implements Conn.
func (c *conn) Reject(reason mad.RejReason, info, private []byte) error {
	const verb = "Conn.Reject"
	if err := checkPrivate(verb, private, mad.REJPrivateLen); err != nil {
		return err
	}
	if len(info) > mad.CMInfoLen {
		return invalid(verb, "%d bytes of additional information, room for %d", len(info), mad.CMInfoLen)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callReject); err != nil {
		return err
	}
	c.reject(reason, info, private)
	return nil
}

// reject refuses a request or reply; c.mu is held. The Conn stays for as long as copies of it may come, to say no again.
func (c *conn) reject(reason mad.RejReason, info, private []byte) {
	which := mad.WhichREQ
	if c.active {
		which = mad.WhichREP
	}
	c.sendREJ(which, reason, info, private)
	c.enterTimeWait(closed("Conn", "rejected here"))
}

// refuse rejects a request that nobody has accepted.
func (c *conn) refuse(reason mad.RejReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.allow(callReject) == nil {
		c.reject(reason, nil, nil)
	}
}

// Handoff implements Conn.
func (c *conn) Handoff(service mad.ServiceID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callHandoff); err != nil {
		return err
	}
	m := c.m
	n := newConn(m)
	n.id, n.remoteID, n.tid, n.state, n.port, n.to, n.req, n.sent = c.id, c.remoteID, c.tid, c.state, c.port, c.to, c.req, c.sent
	n.answered, n.asked, n.alternate, n.altAck, n.due, n.qp = true, c.asked, c.alternate, c.altAck, c.due, c.qp
	m.mu.Lock()
	l := m.listeners.find(n.req.target(service))
	ok := l != nil && !m.closed
	if ok {
		n.peer, n.peerQP, n.from = c.peer, c.peerQP, c.from
		if ok = l.enqueue(n); ok {
			if n.counted, n.place = c.counted, c.place; n.counted {
				m.pending[n.place] = n
			}
			c.counted = false
			m.conns[n.id], m.peers[n.peer], m.peerQPs[n.peerQP] = n, n, n
		}
	}
	m.mu.Unlock()
	if !ok {
		return &ci.Error{Verb: "Conn.Handoff", Status: ci.NotFound, Detail: "no listener for service " + service.String() + ", or its backlog is full"}
	}
	m.wheel.Set(&n.timer, c.due)
	c.close(closed("Conn", "handed off"))
	return nil
}

// target is what the request is addressed to, with a service ID of its own or another one.
func (r *Request) target(service mad.ServiceID) *target {
	return &target{service: service, path: &r.Primary, gid: r.REQ.Primary.RemoteGID, lid: ci.LID(r.REQ.Primary.RemoteLID), private: r.PrivateData[:]}
}
