package lnd

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/mad"
)

// Listen makes a node at an IP address of one of the adapters that m knows. Close it before m. Errors: what is wrong with cfg; those of
// rdmacm.Manager.Listen.
func Listen(m *rdmacm.Manager, cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := newCM(m, netip.AddrPortFrom(cfg.Addr, cfg.Port))
	if err != nil {
		return nil, err
	}
	// The time of day makes a later incarnation differ from this one.
	n, err := newNode(cfg, t, uint64(time.Now().UnixMicro()))
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return n, nil
}

// cmTransport connects by IP address.
type cmTransport struct {
	m        *rdmacm.Manager
	at       netip.AddrPort
	domain   *accesslayer.PD
	listener *rdmacm.Listener
}

func newCM(m *rdmacm.Manager, at netip.AddrPort) (*cmTransport, error) {
	id, err := m.NewID(rdmacm.IDConfig{})
	if err != nil {
		return nil, err
	}
	t := &cmTransport{m: m, at: at}
	if err = id.Bind(at); err == nil {
		t.domain, err = id.PD()
	}
	if err == nil {
		t.listener, err = id.Listen(0)
	}
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	return t, nil
}

func (t *cmTransport) pd() *accesslayer.PD { return t.domain }

func (t *cmTransport) close() error { return t.listener.Close() }

func (t *cmTransport) dial(ctx context.Context, to netip.Addr) (link, error) {
	id, err := t.m.NewID(rdmacm.IDConfig{})
	if err != nil {
		return nil, err
	}
	if err = id.Bind(netip.AddrPortFrom(t.at.Addr(), 0)); err == nil {
		err = id.ResolveAddr(ctx, netip.AddrPortFrom(to, t.at.Port()))
	}
	if err == nil {
		err = id.ResolveRoute(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	return &cmLink{id: id, pd: t.domain}, nil
}

func (t *cmTransport) accept(ctx context.Context) (link, error) {
	id, err := t.listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &cmLink{id: id, pd: t.domain}, nil
}

// cmLink is a link that the connection manager makes.
type cmLink struct {
	id *rdmacm.ID
	pd *accesslayer.PD
}

// terms: no READs and no atomics, ever. A peer that has no receive posted has lost count, so retries are few.
func terms(private []byte) rdmacm.ConnConfig {
	return rdmacm.ConnConfig{Private: private, ResponderResources: -1, InitiatorDepth: -1, Retries: 5, RNRRetries: 6}
}

func (l *cmLink) createQP(c ci.QPCreate) (ci.QP, error) {
	if err := l.id.CreateQP(rdmacm.QPConfig{PD: l.pd, QPCreate: c, Access: ci.RemoteWrite}); err != nil {
		return nil, err
	}
	return l.id.QP(), nil
}

func (l *cmLink) connect(ctx context.Context, private []byte) ([]byte, error) {
	err := l.id.Connect(ctx, terms(private))
	if e, ok := errors.AsType[*cm.RejectError](err); ok && e.Reason == mad.RejConsumer {
		if r, bad := ParseReject(e.Private); bad == nil {
			return nil, r
		}
	}
	return l.id.Reply(), err
}

func (l *cmLink) request() []byte { return l.id.Request().Private }

func (l *cmLink) confirm(ctx context.Context, private []byte) error {
	return l.id.Accept(ctx, terms(private))
}

func (l *cmLink) reject(private []byte) error { return l.id.Reject(private) }

func (l *cmLink) done() <-chan struct{} { return l.id.Done() }

func (l *cmLink) err() error { return l.id.Err() }

func (l *cmLink) close() error { return l.id.Close() }
