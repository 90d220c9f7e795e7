package cm

import (
	"bytes"
	"context"

	"ciddk/ci"
	"ciddk/mad"
)

// services maps the QP types that can be connected to their transport services.
var services = map[ci.QPType]mad.TransportService{ci.RC: mad.ServiceRC, ci.UC: mad.ServiceUC}

// Connect implements Service.
func (m *Manager) Connect(ctx context.Context, cfg ConnectConfig) (Conn, error) {
	const verb = "Service.Connect"
	s, ended := waitingStep()
	c, err := m.newActive(ctx, verb, &cfg)
	if err != nil {
		return nil, err
	}
	if err := c.startConnect(ctx, verb, s); err != nil {
		return nil, err // the manager has been closed meanwhile
	}
	if <-ended; s.err != nil {
		return nil, s.err
	}
	return c, nil
}

// StartConnect implements Service.
func (m *Manager) StartConnect(ctx context.Context, cfg ConnectConfig, done func(Conn, error)) error {
	const verb = "Service.StartConnect"
	if err := checkDone(verb, done == nil); err != nil {
		return err
	}
	c, err := m.newActive(ctx, verb, &cfg)
	if err != nil {
		return err
	}
	return c.startConnect(ctx, verb, c.callbackStep(func(s *step) {
		if s.err != nil {
			done(nil, s.err)
		} else {
			done(c, nil)
		}
	}))
}

// startConnect sends the REQ of a new connection. The answer ends s.
func (c *conn) startConnect(ctx context.Context, verb string, s *step) error {
	m := c.m
	c.mu.Lock()
	defer c.mu.Unlock()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return managerClosed(verb)
	}
	c.id = m.newID()
	c.tid = m.newTID()
	m.conns[c.id] = c
	if c.peerConfig != nil {
		m.peerRequests = append(m.peerRequests, c)
	}
	m.mu.Unlock()
	c.req.LocalCommID = c.id
	c.state = StateREQSent
	c.begin(ctx, s, func() { c.giveUp(ctx.Err()) })
	c.sendAndKeep(c.tid, &c.req.REQ)
	c.setDue(c.interval())
	return nil
}

// newActive returns a connection for a request, in StateIdle.
func (m *Manager) newActive(ctx context.Context, verb string, cfg *ConnectConfig) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	service, ok := services[cfg.QP.Type]
	if !ok {
		return nil, invalid(verb, "QP.Type is %v, want RC or UC", cfg.QP.Type)
	}
	if err := checkPrivate(verb, cfg.Private, mad.REQPrivateLen); err != nil {
		return nil, err
	}
	if cfg.Offset < 0 || cfg.Offset+len(cfg.Compare) > mad.REQPrivateLen {
		return nil, invalid(verb, "Compare has %d bytes at Offset %d, the private data has %d",
			len(cfg.Compare), cfg.Offset,
			mad.REQPrivateLen)
	}
	primary, err := m.resolve(verb, "Primary", cfg.Primary)
	if err != nil {
		return nil, err
	}
	attr := primary.port.a.Attr()
	r := mad.REQ{
		ServiceID: cfg.Service, Service: service, LocalCAGUID: uint64(attr.GUID),
		LocalQPN: uint32(cfg.QP.Num), StartingPSN: uint32(cfg.QP.StartPSN), SRQ: cfg.QP.SRQ,
		ResponderRes:   limit(cfg.ResponderResources, attr.MaxRespResPerQP),
		InitiatorDepth: limit(cfg.InitiatorDepth, attr.MaxInitDepthPerQP),
		RemoteTimeout:  timeOrDefault(cfg.RemoteResponseTime), LocalTimeout: timeOrDefault(cfg.ResponseTime),
		FlowControl: cfg.FlowControl, RetryCount: cfg.RetryCount, RNRRetryCount: cfg.RNRRetry,
		MaxCMRetries: cfg.MaxRetries,
		PKey:         uint16(primary.PKey), PathMTU: mad.MTU(primary.MTU), Primary: primary.cmPath(),
	}
	if r.MaxCMRetries == 0 {
		r.MaxCMRetries = defaultRetries
	}
	copy(r.PrivateData[:], cfg.Private)
	c := newConn(m)
	c.active, c.retryCount, c.qp = true, r.MaxCMRetries, cfg.QP
	c.port, c.to, c.onEvent = primary.port, primary.address(), cfg.OnEvent
	c.req = Request{Primary: primary.Path, From: c.to}
	if cfg.Alternate != nil {
		if !attr.Caps.Has(ci.CapAPM) {
			return nil, &ci.Error{Verb: verb, Status: ci.Unsupported,
				Detail: "Alternate: the CA does not migrate paths"}
		}
		if c.alternate, err = m.resolve(verb, "Alternate", *cfg.Alternate); err != nil {
			return nil, err
		}
		if c.alternate.Port.CA != primary.Port.CA {
			return nil, invalid(verb, "Alternate.Port is on another CA than Primary.Port")
		}
		r.Alternate = c.alternate.cmPath()
		alt := c.alternate.Path
		c.req.Alternate = &alt
	}
	if err := checkMessage(verb, &r); err != nil {
		return nil, err
	}
	c.req.REQ = r
	if cfg.Peer {
		cfg.Compare = bytes.Clone(cfg.Compare)
		c.peerConfig = cfg
	}
	return c, nil
}

func limit(n uint8, most int) uint8 { return uint8(min(int(n), most)) }

func timeOrDefault(t mad.TimeExp) mad.TimeExp {
	if t == 0 {
		return defaultResponse
	}
	return t
}

// receiveREP takes the answer to our REQ. It returns a connection that is stale because of it, or nil. The caller holds
// c.mu.
func (c *conn) receiveREP(rep *mad.REP) (stale *conn) {
	m := c.m
	c.remoteID = rep.LocalCommID
	m.mu.Lock()
	sameID, sameQP := m.insertPeer(c, peerID{rep.LocalCAGUID, rep.LocalCommID}, peerQP{rep.LocalCAGUID, rep.LocalQPN})
	m.removePeerRequest(c)
	m.mu.Unlock()
	if sameID != nil || sameQP != nil {
		reason := mad.RejDuplicateCommID
		if sameQP != nil {
			reason = mad.RejStaleConnection
		}
		m.count.drop(DropStale)
		c.sendREJ(mad.WhichREP, reason, nil, nil)
		err := &ci.Error{Verb: "Service.Connect", Status: ci.RemoteError,
			Detail: "the peer's REP was rejected: " + reason.String()}
		c.finish(err)
		c.close(err)
		return sameQP
	}
	c.rep, c.peerQPKnown = *rep, true
	c.state, c.cause = StateREPRcvd, nil
	if rep.Failover != mad.FailoverAccepted {
		c.alternate = nil
	} else if c.alternate != nil {
		c.alternateAck = c.ackTimeoutFor(c.alternate)
	}
	c.setDue(c.responseTime() / 2)
	c.finish(nil)
	return nil
}

// ackTimeoutFor returns the acknowledgement timeout of the active end's QP on a path. The caller holds c.mu.
func (c *conn) ackTimeoutFor(r *route) ci.TimeExp {
	return ci.TimeExp(ackTimeout(r.LifeTime, c.rep.TargetAckDelay))
}

// Confirm implements Conn.
func (c *conn) Confirm(private []byte) error {
	if err := checkPrivate("Conn.Confirm", private, mad.RTUPrivateLen); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkCall(callConfirm); err != nil {
		return err
	}
	r := mad.RTU{LocalCommID: c.id, RemoteCommID: c.remoteID}
	copy(r.PrivateData[:], private)
	c.sendAndKeep(c.tid, &r)
	c.state, c.due = StateEstablished, 0
	c.m.count.established.Add(1)
	return nil
}
