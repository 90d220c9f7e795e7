package services

import (
	"context"

	"ciddk/accesslayer/cm"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
)

// manager implements cm.Service.
type manager struct{ s *Services }

var _ cm.Service = (*manager)(nil)

// Close implements cm.Service. The connection manager is the daemon's, and remains open.
func (m *manager) Close() error { return nil }

// Listen implements cm.Service.
func (m *manager) Listen(cfg cm.ListenConfig) (cm.Listener, error) {
	const verb = "Service.Listen"
	if err := checkLen(verb, "Compare", cfg.Compare, maxCompare); err != nil {
		return nil, err
	}
	if cfg.Offset < 0 || cfg.Offset > maxCompare || cfg.Backlog < 0 || cfg.Backlog > maxBacklog {
		return nil, invalid(verb, "Offset is %d and Backlog is %d, want 0 to %d and 0 to %d", cfg.Offset, cfg.Backlog,
			maxCompare, maxBacklog)
	}
	l := &listener{}
	l.remote = remote{s: m.s, handle: l.accepted}
	var err error
	if l.token, err = m.s.add(verb, l, l.take); err != nil {
		return nil, err
	}
	var r schema.Created
	q := &schema.CMListen{Services: m.s.handle, Token: l.token, ServiceID: uint64(cfg.Service), Mask: uint64(cfg.Mask),
		Port: convert.ToPort(cfg.Port), GID: cfg.GID, LID: cfg.LID, PKey: cfg.PKey, Offset: uint32(cfg.Offset),
		Backlog: uint32(cfg.Backlog), Datagram: cfg.Datagram, Compare: cfg.Compare}
	if err := m.s.c.Do(schema.CmdCMListen, q, &r); err != nil {
		m.s.remove(l.token)
		return nil, asClosed(err)
	}
	l.setHandle(r.Handle)
	return l, nil
}

const maxBacklog = 4096

// Connect implements cm.Service.
func (m *manager) Connect(ctx context.Context, cfg cm.ConnectConfig) (cm.Conn, error) {
	return wait(func(done func(cm.Conn, error)) error {
		return m.connect(ctx, "Service.Connect", cfg, func(c *conn, f func()) { f() }, done)
	})
}

// StartConnect implements cm.Service.
func (m *manager) StartConnect(ctx context.Context, cfg cm.ConnectConfig, done func(cm.Conn, error)) error {
	const verb = "Service.StartConnect"
	if done == nil {
		return invalid(verb, "done is nil")
	}
	return m.connect(ctx, verb, cfg, (*conn).deliver, done)
}

// connect sends a request. The outcome is delivered with deliver.
func (m *manager) connect(ctx context.Context, verb string, cfg cm.ConnectConfig, deliver func(*conn, func()),
	done func(cm.Conn, error)) error {
	q, err := connectRequest(verb, &cfg)
	if err != nil {
		return err
	}
	c, err := m.s.newConn(verb, cfg.OnEvent)
	if err != nil {
		return err
	}
	op, err := c.begin(ctx, func(_ *schema.Notice, err error) {
		if err != nil {
			_ = c.close(verb) // the request has ended
			deliver(c, func() { done(nil, err) })
			return
		}
		deliver(c, func() { done(c, nil) })
	})
	if err != nil {
		m.s.remove(c.token)
		return err
	}
	q.Services, q.Token, q.Op = m.s.handle, c.token, op
	var r schema.Created
	if err := m.s.c.Do(schema.CmdCMConnect, q, &r); err != nil {
		m.s.remove(c.token)
		if c.removeStep(op) == nil {
			return nil // the loss of the connection to the daemon has called done
		}
		return asClosed(err)
	}
	c.setHandle(r.Handle)
	c.started(op)
	return nil
}

func connectRequest(verb string, cfg *cm.ConnectConfig) (*schema.CMConnect, error) {
	if err := checkLen(verb, "Private", cfg.Private, maxPrivate); err != nil {
		return nil, err
	}
	if err := checkLen(verb, "Compare", cfg.Compare, maxCompare); err != nil {
		return nil, err
	}
	if cfg.Offset < 0 || cfg.Offset > maxCompare {
		return nil, invalid(verb, "Offset is %d, want 0 to %d", cfg.Offset, maxCompare)
	}
	q := &schema.CMConnect{ServiceID: uint64(cfg.Service), QP: convert.ToQP(&cfg.QP),
		Primary: convert.ToPath(&cfg.Primary), Private: cfg.Private, ResponderResources: cfg.ResponderResources,
		InitiatorDepth: cfg.InitiatorDepth, RetryCount: cfg.RetryCount, RNRRetry: cfg.RNRRetry,
		FlowControl: cfg.FlowControl, ResponseTime: uint8(cfg.ResponseTime),
		RemoteResponseTime: uint8(cfg.RemoteResponseTime), MaxRetries: cfg.MaxRetries, Peer: cfg.Peer,
		Offset: uint32(cfg.Offset), Compare: cfg.Compare}
	if cfg.Alternate != nil {
		q.Alternate, q.HasAlternate = convert.ToPath(cfg.Alternate), true
	}
	return q, nil
}

// lookup is a SIDR request.
type lookup struct{ remote }

func (l *lookup) disconnect() { l.end(lostError("Service.Lookup")) }

// Close implements object.
func (l *lookup) Close() error { return l.close("Service.Lookup") }

// Lookup implements cm.Service.
func (m *manager) Lookup(ctx context.Context, cfg cm.LookupConfig) (*cm.LookupReply, error) {
	return wait(func(done func(*cm.LookupReply, error)) error { return m.lookup(ctx, "Service.Lookup", cfg, done) })
}

// StartLookup implements cm.Service.
func (m *manager) StartLookup(ctx context.Context, cfg cm.LookupConfig, done func(*cm.LookupReply, error)) error {
	const verb = "Service.StartLookup"
	if done == nil {
		return invalid(verb, "done is nil")
	}
	return m.lookup(ctx, verb, cfg, func(r *cm.LookupReply, err error) { go done(r, err) })
}

func (m *manager) lookup(ctx context.Context, verb string, cfg cm.LookupConfig,
	done func(*cm.LookupReply, error)) error {
	if err := checkLen(verb, "Private", cfg.Private, maxPrivate); err != nil {
		return err
	}
	l := &lookup{}
	l.remote = remote{s: m.s, handle: func(*schema.Notice) {}}
	var err error
	if l.token, err = m.s.add(verb, l, l.take); err != nil {
		return err
	}
	op, err := l.begin(ctx, func(n *schema.Notice, err error) {
		_ = l.close(verb) // it has ended
		if err != nil {
			done(nil, err)
			return
		}
		done(&cm.LookupReply{QPN: n.QPN, QKey: n.QKey, Private: n.Private, From: convert.Address(&n.From)}, nil)
	})
	if err != nil {
		m.s.remove(l.token)
		return err
	}
	var r schema.Created
	q := &schema.CMLookup{Services: m.s.handle, Token: l.token, Op: op, ServiceID: uint64(cfg.Service),
		Path: convert.ToPath(&cfg.Path), Timeout: int64(cfg.Timeout), Retries: schema.Int32(cfg.Retries),
		Private: cfg.Private}
	if err := m.s.c.Do(schema.CmdCMLookup, q, &r); err != nil {
		m.s.remove(l.token)
		if l.removeStep(op) == nil {
			return nil // the loss of the connection to the daemon has called done
		}
		return asClosed(err)
	}
	l.setHandle(r.Handle)
	l.started(op)
	return nil
}
