package cm

import (
	"bytes"
	"context"

	"ciddk/ci"
	"ciddk/mad"
)

// services are the transports that a manager connects.
var services = map[ci.QPType]mad.TransportService{ci.RC: mad.ServiceRC, ci.UC: mad.ServiceUC}

// Connect implements Service.
func (m *Manager) Connect(ctx context.Context, cfg ConnectConfig) (Conn, error) {
	s, ended := waitingStep()
	c, err := m.newActive(ctx, "Service.Connect", &cfg)
	if err != nil {
		return nil, err
	}
	if err := c.startConnect(ctx, "Service.Connect", s); err != nil {
		return nil, err
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

// startConnect sends the REQ of a new connection. s ends with the answer.
func (c *conn) startConnect(ctx context.Context, verb string, s *step) error {
	m := c.m
	c.mu.Lock()
	defer c.mu.Unlock()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return closed(verb, "the connection manager is closed")
	}
	c.id = m.newID()
	c.tid = m.newTID()
	m.conns[c.id] = c
	if c.asking != nil {
		m.askingPeer = append(m.askingPeer, c)
	}
	m.mu.Unlock()
	c.req.LocalCommID = c.id
	c.state = StateREQSent
	c.begin(ctx, s, func() { c.giveUp(ctx.Err()) })
	c.put(c.tid, &c.req.REQ)
	c.setDue(c.interval())
	return nil
}

// newActive makes the connection that a request asks for.
func (m *Manager) newActive(ctx context.Context, verb string, cfg *ConnectConfig) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	service, ok := services[cfg.QP.Type]
	if !ok {
		return nil, invalid(verb, "QP.Type %v: connections are of RC and UC", cfg.QP.Type)
	}
	if err := checkPrivate(verb, cfg.Private, mad.REQPrivateLen); err != nil {
		return nil, err
	}
	if cfg.Offset < 0 || cfg.Offset+len(cfg.Compare) > mad.REQPrivateLen {
		return nil, invalid(verb, "Compare at Offset is not within the %d bytes of private data", mad.REQPrivateLen)
	}
	primary, err := m.resolve(verb, "Primary", cfg.Primary)
	if err != nil {
		return nil, err
	}
	attr := primary.port.a.Attr()
	r := mad.REQ{ServiceID: cfg.Service, LocalCAGUID: uint64(attr.GUID), LocalQPN: uint32(cfg.QP.Num), Service: service,
		ResponderRes: cut(cfg.ResponderResources, attr.MaxRespResPerQP), InitiatorDepth: cut(cfg.InitiatorDepth, attr.MaxInitDepthPerQP),
		RemoteTimeout: orTime(cfg.RemoteResponseTime), LocalTimeout: orTime(cfg.ResponseTime), FlowControl: cfg.FlowControl,
		StartingPSN: uint32(cfg.QP.StartPSN), RetryCount: cfg.RetryCount, PKey: uint16(primary.PKey), PathMTU: mad.MTU(primary.MTU),
		RNRRetryCount: cfg.RNRRetry, MaxCMRetries: cfg.MaxRetries, SRQ: cfg.QP.SRQ, Primary: primary.wire()}
	if r.MaxCMRetries == 0 {
		r.MaxCMRetries = defaultRetries
	}
	copy(r.PrivateData[:], cfg.Private)
	c := newConn(m)
	c.active, c.left, c.qp, c.port, c.to, c.onEvent = true, r.MaxCMRetries, cfg.QP, primary.port, primary.address(), cfg.OnEvent
	c.req = Request{Primary: primary.Path, From: c.to}
	if cfg.Alternate != nil {
		if !attr.Caps.Has(ci.CapAPM) {
			return nil, &ci.Error{Verb: verb, Status: ci.Unsupported, Detail: "Alternate: the CA does not migrate paths"}
		}
		if c.alternate, err = m.resolve(verb, "Alternate", *cfg.Alternate); err != nil {
			return nil, err
		}
		if c.alternate.Port.CA != primary.Port.CA {
			return nil, invalid(verb, "Alternate.Port is of another CA than Primary.Port")
		}
		r.Alternate = c.alternate.wire()
		alt := c.alternate.Path
		c.req.Alternate = &alt
	}
	if err := checked(verb, &r); err != nil {
		return nil, err
	}
	c.req.REQ = r
	if cfg.Peer {
		cfg.Compare = bytes.Clone(cfg.Compare)
		c.asking = cfg
	}
	return c, nil
}

func cut(n uint8, limit int) uint8 { return uint8(min(int(n), limit)) }

func orTime(t mad.TimeExp) mad.TimeExp {
	if t == 0 {
		return defaultResponse
	}
	return t
}

// takeREP is the answer to our request; c.mu is held. It gives the connection that is stale because of it.
func (c *conn) takeREP(rep *mad.REP) (stale *conn) {
	m := c.m
	c.remoteID = rep.LocalCommID
	m.mu.Lock()
	sameID, sameQP := m.insertPeer(c, peerID{rep.LocalCAGUID, rep.LocalCommID}, peerQP{rep.LocalCAGUID, rep.LocalQPN})
	m.forgetAsking(c)
	m.mu.Unlock()
	if sameID != nil || sameQP != nil {
		reason := mad.RejDuplicateCommID
		if sameQP != nil {
			reason = mad.RejStaleConnection
		}
		m.count.drop(DropStale)
		c.sendREJ(mad.WhichREP, reason, nil, nil)
		err := &ci.Error{Verb: "Service.Connect", Status: ci.RemoteError, Detail: "the peer's answer was rejected: " + reason.String()}
		c.finish(err)
		c.close(err)
		return sameQP
	}
	c.rep, c.answered, c.state, c.why = *rep, true, StateREPRcvd, nil
	if rep.Failover != mad.FailoverAccepted {
		c.alternate = nil
	} else if c.alternate != nil {
		c.altAck = c.ackOf(c.alternate)
	}
	c.setDue(c.patience() / 2)
	c.finish(nil)
	return nil
}

// ackOf is the acknowledgement timeout of the active end's QP on a path; c.mu is held.
func (c *conn) ackOf(w *way) ci.TimeExp {
	return ci.TimeExp(ackTimeout(w.LifeTime, c.rep.TargetAckDelay))
}

// Confirm implements Conn.
func (c *conn) Confirm(private []byte) error {
	if err := checkPrivate("Conn.Confirm", private, mad.RTUPrivateLen); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.allow(callConfirm); err != nil {
		return err
	}
	r := mad.RTU{LocalCommID: c.id, RemoteCommID: c.remoteID}
	copy(r.PrivateData[:], private)
	c.put(c.tid, &r)
	c.state, c.due = StateEstablished, 0
	c.m.count.established.Add(1)
	return nil
}
