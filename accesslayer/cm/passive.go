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
	if err := c.checkCall(callAccept); err != nil {
		return err
	}
	if service, ok := services[cfg.QP.Type]; !ok || service != c.req.Service {
		return invalid(verb, "QP.Type is %v, the request is for %v", cfg.QP.Type, c.req.Service)
	}
	if cfg.QP.StartPSN == 0 {
		cfg.QP.StartPSN = c.qp.StartPSN
	}
	r := c.newREP(&cfg)
	if err := checkMessage(verb, r); err != nil {
		return err
	}
	if r.Failover != mad.FailoverAccepted {
		c.alternate = nil
	}
	c.rep, c.qp, c.accepted = *r, cfg.QP, true
	c.state, c.retryCount = StateREPSent, c.req.MaxCMRetries
	if c.onEvent == nil && cfg.OnEvent != nil {
		c.onEvent = cfg.OnEvent
		c.wake()
	}
	c.begin(ctx, s, func() { c.giveUp(ctx.Err()) })
	c.m.mu.Lock()
	c.m.addReplied(c)
	c.m.mu.Unlock()
	c.sendAndKeep(c.tid, r)
	c.setDue(c.interval())
	return nil
}

// newREP returns the answer to the request. The caller holds c.mu.
func (c *conn) newREP(cfg *AcceptConfig) *mad.REP {
	attr := c.port.a.Attr()
	r := &mad.REP{
		LocalCommID: c.id, RemoteCommID: c.remoteID, LocalCAGUID: uint64(attr.GUID),
		LocalQPN: uint32(cfg.QP.Num), StartingPSN: uint32(cfg.QP.StartPSN), SRQ: cfg.QP.SRQ,
		ResponderRes:   min(limit(cfg.ResponderResources, attr.MaxRespResPerQP), c.req.InitiatorDepth),
		InitiatorDepth: min(limit(cfg.InitiatorDepth, attr.MaxInitDepthPerQP), c.req.ResponderRes),
		TargetAckDelay: mad.TimeExp(attr.AckDelay), Failover: cfg.Failover,
		FlowControl: cfg.FlowControl, RNRRetryCount: cfg.RNRRetry,
	}
	switch {
	case c.alternate == nil:
		r.Failover = mad.FailoverAccepted
	case !attr.Caps.Has(ci.CapAPM):
		r.Failover = mad.FailoverNotSupported
	}
	copy(r.PrivateData[:], cfg.Private)
	return r
}

// establish establishes the connection of a passive end. The caller holds c.mu.
func (c *conn) establish() {
	c.state, c.due, c.sent = StateEstablished, 0, nil
	c.m.count.established.Add(1)
	c.m.mu.Lock()
	if c.pending {
		c.m.unfinished.complete(&c.from, c.m.clock.Elapsed())
	}
	c.m.removePending(c)
	c.m.mu.Unlock()
	c.finish(nil)
}

// receiveRTU queues EventEstablished for the first RTU. It returns false for copies. The caller holds c.mu.
func (c *conn) receiveRTU(r *mad.RTU) bool {
	if c.active || c.rtuReceived {
		return false
	}
	c.rtuReceived = true
	c.emit(Event{Type: EventEstablished, Private: r.PrivateData[:]})
	return true
}

// Established implements Conn.
func (c *conn) Established() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callEstablished); err != nil {
		return err
	}
	if c.state != StateEstablished { // the RTU may have arrived before this call
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
		return invalid(verb, "the time is %d, at most %d", uint8(t), uint8(mad.MaxTimeExp))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callDelay); err != nil {
		return err
	}
	switch c.state {
	case StateREQRcvd, StateMRAREQSent:
		c.sendMRA(mad.WhichREQ, t, private)
	case StateREPRcvd, StateMRAREPSent:
		c.sendMRA(mad.WhichREP, t, private)
	default:
		return c.sendMRAofLAP(t, private)
	}
	return nil
}

// Reject implements Conn.
func (c *conn) Reject(reason mad.RejReason, info, private []byte) error {
	const verb = "Conn.Reject"
	if err := checkPrivate(verb, private, mad.REJPrivateLen); err != nil {
		return err
	}
	if err := checkInfo(verb, info); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callReject); err != nil {
		return err
	}
	c.reject(reason, info, private)
	return nil
}

// reject rejects a REQ or REP. The connection stays in time-wait to reject copies of it. The caller holds c.mu.
func (c *conn) reject(reason mad.RejReason, info, private []byte) {
	which := mad.WhichREQ
	if c.active {
		which = mad.WhichREP
	}
	c.sendREJ(which, reason, info, private)
	c.enterTimeWait(closed("Conn", "rejected here"))
}

// rejectUnaccepted rejects a request that no call of Accept has returned.
func (c *conn) rejectUnaccepted(reason mad.RejReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checkCall(callReject) == nil {
		c.reject(reason, nil, nil)
	}
}

// Handoff implements Conn.
func (c *conn) Handoff(service mad.ServiceID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callHandoff); err != nil {
		return err
	}
	m := c.m
	n := c.newHandoff()
	m.mu.Lock()
	l := m.listeners.find(n.req.target(service))
	ok := l != nil && !m.closed
	if ok {
		n.peer, n.peerQP, n.from = c.peer, c.peerQP, c.from
		if ok = l.enqueue(n); ok {
			if n.pending, n.pendingIndex = c.pending, c.pendingIndex; n.pending {
				m.pending[n.pendingIndex] = n
			}
			c.pending = false
			m.conns[n.id], m.peers[n.peer], m.peerQPs[n.peerQP] = n, n, n
		}
	}
	m.mu.Unlock()
	if !ok {
		return &ci.Error{Verb: "Conn.Handoff", Status: ci.NotFound,
			Detail: "service " + service.String() + " has no listener, or its backlog is full"}
	}
	m.wheel.Set(&n.timer, c.due)
	c.close(closed("Conn", "handed off"))
	return nil
}

// newHandoff returns a connection with the request of c, for another listener. The caller holds c.mu.
func (c *conn) newHandoff() *conn {
	n := newConn(c.m)
	n.id, n.remoteID, n.tid = c.id, c.remoteID, c.tid
	n.state, n.mraTime, n.due = c.state, c.mraTime, c.due
	n.port, n.to, n.qp = c.port, c.to, c.qp
	n.req, n.sent, n.peerQPKnown = c.req, c.sent, true
	n.alternate, n.alternateAck = c.alternate, c.alternateAck
	return n
}

// target returns the destination of the request with the given service ID instead of its own.
func (r *Request) target(service mad.ServiceID) *target {
	return &target{service: service, path: &r.Primary, gid: r.REQ.Primary.RemoteGID,
		lid: ci.LID(r.REQ.Primary.RemoteLID), private: r.PrivateData[:]}
}
