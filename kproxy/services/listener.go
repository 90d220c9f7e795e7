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

// listener is a listener of a client.
type listener struct {
	notices
	s       *Service
	parent  *services
	session *kproxy.Session
	cfg     cm.ListenConfig
	l       cm.Listener

	requestsMu sync.Mutex
	requests   []*lookupRequest // that were not answered, oldest first
}

func (l *listener) queue() *notices { return &l.notices }

// Bytes that the requests of a listener's backlog hold, by estimate, and the number that is charged in advance.
const (
	bytesPerRequest = 2048
	chargedBacklog  = 128
)

func (s *Service) listen(c *kproxy.Session, verb string, r *schema.CMListen) (any, error) {
	parent, err := find[*services](c, verb, schema.KindServices, r.Services)
	if err != nil {
		return nil, err
	}
	cfg := cm.ListenConfig{Service: mad.ServiceID(r.ServiceID), Mask: mad.ServiceID(r.Mask), Port: convert.Port(r.Port),
		GID: r.GID, LID: r.LID, PKey: r.PKey, Offset: int(r.Offset), Compare: r.Compare, Datagram: r.Datagram,
		Backlog: int(r.Backlog)}
	if cfg.Mask != 0 && cfg.Mask != mad.ServiceIDExact {
		if err := c.Privileged(verb); err != nil {
			return nil, err
		}
	}
	backlog := int64(cfg.Backlog)
	if backlog == 0 {
		backlog = chargedBacklog
	}
	item, err := c.Reserve(verb, kproxy.ItemConfig{Kind: schema.KindListener, Token: r.Token, Parent: parent.item,
		Bytes: bytesPerObject + backlog*bytesPerRequest})
	if err != nil {
		return nil, err
	}
	l := &listener{notices: notices{item: item}, s: s, parent: parent, session: c, cfg: cfg}
	if err := s.addListener(verb, l); err != nil {
		item.Remove()
		return nil, err
	}
	if l.l, err = s.cfg.CM.Listen(cfg); err != nil {
		s.removeListener(l)
		item.Remove()
		return nil, err
	}
	if err := item.Commit(verb, l); err != nil {
		return nil, err // the session has been closed meanwhile
	}
	return &schema.Created{Handle: item.Handle()}, nil
}

// addListener adds a listener, unless a listener of another client could receive one of its requests. Status:
// InvalidSetting.
func (s *Service) addListener(verb string, l *listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.listeners {
		if o.session != l.session && overlap(&o.cfg, &l.cfg) {
			return errorf(verb, ci.InvalidSetting, "another process listens for service %v", l.cfg.Service)
		}
	}
	s.listeners[l] = struct{}{}
	return nil
}

func (s *Service) removeListener(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// overlap reports whether a request can match two listeners.
func overlap(a, b *cm.ListenConfig) bool {
	maskA, maskB := a.Mask, b.Mask
	if maskA == 0 {
		maskA = mad.ServiceIDExact
	}
	if maskB == 0 {
		maskB = mad.ServiceIDExact
	}
	const member = 0x8000
	pkeyA, pkeyB := a.PKey&^member, b.PKey&^member
	switch {
	case a.Datagram != b.Datagram, !a.Service.Matches(b.Service, maskA&maskB):
		return false
	case a.Port.CA != 0 && b.Port.CA != 0 && a.Port.CA != b.Port.CA:
		return false
	case a.Port.Num != 0 && b.Port.Num != 0 && a.Port != b.Port:
		return false
	case a.GID != ci.GID{} && b.GID != ci.GID{} && a.GID != b.GID:
		return false
	case a.LID != 0 && b.LID != 0 && a.LID != b.LID:
		return false
	case pkeyA != 0 && pkeyB != 0 && pkeyA != pkeyB:
		return false
	}
	for i := range a.Compare {
		if j := a.Offset + i - b.Offset; j >= 0 && j < len(b.Compare) && a.Compare[i] != b.Compare[j] {
			return false
		}
	}
	return true
}

// Destroy stops listening.
func (l *listener) Destroy() error { l.Abandon(); return nil }

// Abandon stops listening.
func (l *listener) Abandon() {
	list, ok := l.close()
	if !ok {
		return
	}
	_ = l.l.Close() // it has no error
	l.s.removeListener(l)
	for _, n := range list { // the client has not taken them, and does not know their handles
		if n.Kind == schema.NoticeAccepted {
			l.discard(n.Object)
		}
	}
}

// discard ends a connection or lookup request that the client has not taken.
func (l *listener) discard(h schema.Handle) {
	if s, item, err := l.session.Servant("Listener.Close", h.Kind(), h); err == nil {
		s.Abandon()
		item.Remove()
	}
}

// Status returns the service ID.
func (l *listener) Status() string {
	kind := "listener"
	if l.cfg.Datagram {
		kind = "datagram listener"
	}
	return fmt.Sprintf("%s: service %v", kind, l.cfg.Service)
}

// accept starts to accept a request.
func accept(c *kproxy.Session, verb string, r *schema.CMAccept) (any, error) {
	l, err := find[*listener](c, verb, schema.KindListener, r.Listener)
	if err != nil {
		return nil, err
	}
	return l.start(verb, r.Op, func(ctx context.Context) error {
		if r.Lookup {
			return l.acceptLookup(ctx, verb, r)
		}
		return l.accept(ctx, verb, r)
	})
}

// accept passes the next request to the client. A request for which the client has no quota is rejected, and the next
// one is awaited.
func (l *listener) accept(ctx context.Context, verb string, r *schema.CMAccept) error {
	return l.l.StartAccept(ctx, func(c cm.Conn, err error) {
		if err != nil {
			l.end(&schema.Notice{Op: r.Op}, err)
			return
		}
		x, err := l.parent.newConn(verb, l.session, r.Token)
		if err == nil {
			x.passive(c)
			err = x.item.Commit(verb, x)
		}
		if err != nil {
			_ = c.Reject(mad.RejNoResources, nil, nil) // the request may have ended
			_ = c.Close()                              // it has no error
			if err := l.accept(ctx, verb, r); err != nil {
				l.end(&schema.Notice{Op: r.Op}, err) // the listener has been closed meanwhile
			}
			return
		}
		l.forget(r.Op)
		if !l.push(&schema.Notice{Kind: schema.NoticeAccepted, Op: r.Op, Object: x.item.Handle()}) {
			l.discard(x.item.Handle())
		}
	})
}

func (l *listener) acceptLookup(ctx context.Context, verb string, r *schema.CMAccept) error {
	return l.l.StartAcceptLookup(ctx, func(q cm.LookupRequest, err error) {
		if err != nil {
			l.end(&schema.Notice{Op: r.Op}, err)
			return
		}
		x, err := l.newLookupRequest(verb, q)
		if err != nil {
			_ = q.Reject(mad.SIDRNoQP, nil, nil) // the request may have ended
			if err := l.acceptLookup(ctx, verb, r); err != nil {
				l.end(&schema.Notice{Op: r.Op}, err) // the listener has been closed meanwhile
			}
			return
		}
		path, from := q.Path(), q.From()
		l.forget(r.Op)
		n := &schema.Notice{Kind: schema.NoticeAccepted, Op: r.Op, Object: x.item.Handle(), HasPath: true,
			Path: convert.ToPath(&path), From: convert.ToAddress(&from), Message: convert.Message(q.Request())}
		if !l.push(n) {
			l.discard(n.Object)
		}
	})
}
