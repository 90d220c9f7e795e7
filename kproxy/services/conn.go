package services

import (
	"context"
	"fmt"
	"sync"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
	"ciddk/kproxy"
	"ciddk/mad"
)

// conn is a connection of a client, or its request for one.
type conn struct {
	notices
	session *kproxy.Session

	connMu sync.Mutex
	c      cm.Conn // nil until the request has been answered
	ended  bool
	guid   ci.GUID // of the adapter
	qp     ci.QPN  // of the client; 0: not known
}

// bytesPerConn is an estimate of what a connection holds in the connection manager and here.
const bytesPerConn = 4096

func (x *conn) queue() *notices { return &x.notices }

// newConn returns a connection that is not committed.
func (p *services) newConn(verb string, c *kproxy.Session, token uint64) (*conn, error) {
	item, err := c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindConn, Token: token, Parent: p.item,
		Bytes: bytesPerConn})
	if err != nil {
		return nil, err
	}
	return &conn{notices: notices{item: item}, session: c}, nil
}

// passive makes x the connection of a request that was received.
func (x *conn) passive(c cm.Conn) {
	x.c = c
	if r := c.Request(); r != nil {
		x.guid = r.Primary.Port.CA
	}
	if n, ok := c.(cm.Notifier); ok {
		n.Notify(x.event)
	}
}

// event is called with the events of the connection.
func (x *conn) event(_ cm.Conn, e cm.Event) { x.push(newEvent(&e)) }

func (s *Service) connect(c *kproxy.Session, verb string, r *schema.CMConnect) (any, error) {
	parent, err := find[*services](c, verb, schema.KindServices, r.Services)
	if err != nil {
		return nil, err
	}
	if err := s.checkPort(verb, r.Primary.Port); err != nil {
		return nil, err
	}
	if err := c.CheckQP(verb, r.Primary.Port.CA, r.QP.Num); err != nil {
		return nil, err
	}
	x, err := parent.newConn(verb, c, r.Token)
	if err != nil {
		return nil, err
	}
	x.guid, x.qp = r.Primary.Port.CA, r.QP.Num
	cfg := connectConfig(r)
	cfg.OnEvent = x.event
	if err := x.item.Commit(verb, x); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	_, err = x.start(verb, r.Op, func(ctx context.Context) error {
		return s.cfg.CM.StartConnect(ctx, cfg, func(c cm.Conn, err error) { x.connected(r.Op, c, err) })
	})
	if err != nil {
		_, _ = x.close()
		x.item.Remove()
		return nil, err
	}
	return &schema.Created{Handle: x.item.Handle()}, nil
}

func connectConfig(r *schema.CMConnect) cm.ConnectConfig {
	cfg := cm.ConnectConfig{Service: mad.ServiceID(r.ServiceID), QP: convert.QP(&r.QP),
		Primary: convert.Path(&r.Primary), Private: r.Private, ResponderResources: r.ResponderResources,
		InitiatorDepth: r.InitiatorDepth, RetryCount: r.RetryCount, RNRRetry: r.RNRRetry, FlowControl: r.FlowControl,
		ResponseTime: mad.TimeExp(r.ResponseTime), RemoteResponseTime: mad.TimeExp(r.RemoteResponseTime),
		MaxRetries: r.MaxRetries, Peer: r.Peer, Offset: int(r.Offset), Compare: r.Compare}
	if r.HasAlternate {
		p := convert.Path(&r.Alternate)
		cfg.Alternate = &p
	}
	return cfg
}

// connected is called with the answer to a request.
func (x *conn) connected(op uint64, c cm.Conn, err error) {
	x.connMu.Lock()
	ended := x.ended
	if err == nil {
		x.c = c
	}
	x.connMu.Unlock()
	if ended && err == nil {
		x.quarantine(c)
		_ = c.Close() // it has no error
		return
	}
	x.end(&schema.Notice{Op: op}, err)
}

// conn returns the connection of the connection manager. Status: InvalidState (there is none yet).
func (x *conn) conn(verb string) (cm.Conn, error) {
	x.connMu.Lock()
	defer x.connMu.Unlock()
	if x.c == nil {
		return nil, errorf(verb, ci.InvalidState, "the request has not been answered")
	}
	return x.c, nil
}

// Destroy closes the connection: it rejects or disconnects, depending on the state.
func (x *conn) Destroy() error {
	x.finish(false)
	return nil
}

// Abandon closes the connection of a client that is gone. The number of its QP is not used again during time-wait.
func (x *conn) Abandon() { x.finish(true) }

func (x *conn) finish(quarantine bool) {
	if _, ok := x.close(); !ok { // cancels a request that has not been answered
		return
	}
	x.connMu.Lock()
	x.ended = true
	c := x.c
	x.connMu.Unlock()
	if c == nil {
		return
	}
	if quarantine {
		x.quarantine(c)
	}
	_ = c.Close() // it has no error
}

func (x *conn) quarantine(c cm.Conn) {
	x.connMu.Lock()
	guid, qp := x.guid, x.qp
	x.connMu.Unlock()
	if d := c.TimeWait(); qp != 0 && d > 0 {
		x.session.Quarantine(guid, qp, d)
	}
}

// Status returns the state and the QPs.
func (x *conn) Status() string {
	x.connMu.Lock()
	c, qp := x.c, x.qp
	x.connMu.Unlock()
	if c == nil {
		return fmt.Sprintf("connection: requested for QP %#x", uint32(qp))
	}
	return fmt.Sprintf("connection %#08x: %v, QP %#x, peer %#08x", c.ID(), c.State(), uint32(qp), c.RemoteID())
}

func findConn(c *kproxy.Session, verb string, h schema.Handle) (*conn, cm.Conn, error) {
	x, err := find[*conn](c, verb, schema.KindConn, h)
	if err != nil {
		return nil, nil, err
	}
	conn, err := x.conn(verb)
	return x, conn, err
}

// replyTo accepts a request with one of the client's QPs.
func replyTo(c *kproxy.Session, verb string, r *schema.CMReply) (any, error) {
	x, conn, err := findConn(c, verb, r.Conn)
	if err != nil {
		return nil, err
	}
	if err := c.CheckQP(verb, x.guid, r.QP.Num); err != nil {
		return nil, err
	}
	cfg := cm.AcceptConfig{QP: convert.QP(&r.QP), Private: r.Private, ResponderResources: r.ResponderResources,
		InitiatorDepth: r.InitiatorDepth, RNRRetry: r.RNRRetry, FlowControl: r.FlowControl,
		Failover: mad.Failover(r.Failover), OnEvent: x.event}
	return x.start(verb, r.Op, func(ctx context.Context) error {
		err := conn.StartAccept(ctx, cfg, func(err error) { x.end(&schema.Notice{Op: r.Op}, err) })
		if err == nil {
			x.connMu.Lock()
			x.qp = r.QP.Num
			x.connMu.Unlock()
		}
		return err
	})
}

// callConn calls a method of a connection.
func callConn(c *kproxy.Session, verb string, r *schema.CMConnCall) (any, error) {
	x, conn, err := findConn(c, verb, r.Conn)
	if err != nil {
		return nil, err
	}
	switch r.Call {
	case schema.CMConfirm:
		err = conn.Confirm(r.Private)
	case schema.CMEstablished:
		err = conn.Established()
	case schema.CMDelay:
		err = conn.Delay(mad.TimeExp(min(r.Value, 255)), r.Private)
	case schema.CMReject:
		err = conn.Reject(mad.RejReason(min(r.Value, 1<<16-1)), r.Info, r.Private)
	case schema.CMHandoff:
		err = conn.Handoff(mad.ServiceID(r.Value))
	case schema.CMAnswerAlternate:
		err = conn.AnswerAlternate(mad.APRStatus(min(r.Value, 255)), r.Info, r.Private)
	case schema.CMDisconnect:
		return x.start(verb, r.Op, func(ctx context.Context) error {
			return conn.StartDisconnect(ctx, r.Private, func(private []byte, err error) {
				x.end(&schema.Notice{Op: r.Op, Private: private}, err)
			})
		})
	case schema.CMAnswerDisconnect:
		err = conn.AnswerDisconnect(r.Private)
	case schema.CMMigrated:
		err = conn.Migrated()
	}
	if err != nil {
		return nil, err
	}
	return &schema.None{}, nil
}

// loadAlternate proposes an alternate path.
func loadAlternate(c *kproxy.Session, verb string, r *schema.CMLoadAlternate) (any, error) {
	x, conn, err := findConn(c, verb, r.Conn)
	if err != nil {
		return nil, err
	}
	cfg := cm.AlternateConfig{Path: convert.Path(&r.Path), Private: r.Private}
	return x.start(verb, r.Op, func(ctx context.Context) error {
		return conn.StartLoadAlternate(ctx, cfg, func(apr *mad.APR, err error) {
			n := &schema.Notice{Op: r.Op}
			if apr != nil {
				n.Message = convert.Message(apr)
			}
			x.end(n, err)
		})
	})
}

// queryConn returns the attributes of a connection.
func queryConn(c *kproxy.Session, verb string, r *schema.CMConn) (any, error) {
	_, conn, err := findConn(c, verb, r.Conn)
	if err != nil {
		return nil, err
	}
	reply := &schema.CMConnReply{ID: conn.ID(), RemoteID: conn.RemoteID(), State: uint32(conn.State()),
		TimeWait: int64(conn.TimeWait())}
	if q := conn.Request(); q != nil {
		reply.Primary, reply.From = convert.ToPath(&q.Primary), convert.ToAddress(&q.From)
		q.Put(reply.REQ[:])
		if q.Alternate != nil {
			reply.Alternate, reply.HasAlternate = convert.ToPath(q.Alternate), true
		}
	}
	if p := conn.Reply(); p != nil {
		reply.HasReply = true
		p.Put(reply.REP[:])
	}
	return reply, nil
}

// queryQPAttr returns the attributes of the QP of a connection.
func queryQPAttr(c *kproxy.Session, verb string, r *schema.CMQPAttr) (any, error) {
	_, conn, err := findConn(c, verb, r.Conn)
	if err != nil {
		return nil, err
	}
	var set ci.QPField
	var attr ci.QPAttr
	if r.Alternate {
		set, attr, err = conn.AlternateAttr()
	} else {
		set, attr, err = conn.QPAttr(r.State)
	}
	if err != nil {
		return nil, err
	}
	return &schema.CMQPAttrReply{Set: set, Attr: schema.NewQPAttr(&attr)}, nil
}
