package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"ciddk/accesslayer/rdmacm/cmid"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
)

// ListenConfig describes a Listener. The zero value is ready for use.
type ListenConfig struct {
	// ID describes the port space, partition and so on. Its Type must be RC; Events is not used.
	ID cmid.IDConfig
	// Backlog bounds the requests that wait for Accept; more are rejected. 0: 128.
	Backlog int
	// Conn describes this end of the connections. Plain is set for a request whose sender is not a Conn.
	Conn ConnConfig
}

// Listener receives requests for connections. All methods may be called concurrently.
type Listener struct {
	l   *cmid.Listener
	cfg ConnConfig
}

// Listen listens on an address and port. The zero address and :: stand for all addresses of all HCAs, also of those
// that are added later; 0.0.0.0 stands for all of IPv4. Port 0 is a free port: see Listener.Addr. Errors: EADDRINUSE,
// EADDRNOTAVAIL (no HCA has the address), net.ErrClosed.
func (m *Manager) Listen(local netip.AddrPort, cfg ListenConfig) (*Listener, error) {
	const verb = "Manager.Listen"
	if err := cfg.Conn.complete(verb); err != nil {
		return nil, err
	}
	if cfg.ID.Type != ci.RC || cfg.ID.Space == cmid.UDP {
		return nil, notRC(verb)
	}
	cfg.ID.Events = nil
	l, err := m.ids.Listen(local, cmid.ListenConfig{ID: cfg.ID, Backlog: cfg.Backlog})
	if err != nil {
		return nil, err
	}
	return &Listener{l: l, cfg: cfg.Conn}, nil
}

// Addr returns the address and port on which the Listener listens.
func (l *Listener) Addr() Addr { return l.l.Addr() }

// Close ends listening. Requests that wait are rejected; connections and requests that Accept has returned are not
// affected. It is idempotent.
func (l *Listener) Close() error { return l.l.Close() }

// Accept waits for a request. The peer waits for some seconds; Request.Delay requests more time from it.
// Errors: the context's, net.ErrClosed.
func (l *Listener) Accept(ctx context.Context) (*Request, error) {
	for {
		id, err := l.l.Accept(ctx)
		if err != nil {
			return nil, err
		}
		if id.Request().Type != ci.RC {
			_ = id.Reject(nil)
			_ = id.Close()
			continue
		}
		r := &Request{id: id, Config: l.cfg, private: id.Request().Private}
		if !r.Config.Plain {
			h, rest, ok, err := parseHello(r.private)
			if err != nil { // the sender's limits are invalid
				_ = id.Reject(nil)
				_ = id.Close()
				continue
			}
			r.hello, r.private, r.Config.Plain = h, rest, !ok
		}
		return r, nil
	}
}

// Request is the request of a peer to connect. The program calls Accept or Reject once, or takes it over with ID.
type Request struct {
	// Config describes this end of the connection. It is the Listener's, and may be changed before Accept. Plain is set
	// if the peer is not a Conn, and must not be changed.
	Config ConnConfig

	id      *cmid.ID
	hello   hello
	private []byte
}

// Private returns the private data of the peer's application, padded with zeros.
func (r *Request) Private() []byte { return r.private }

// LocalAddr returns the address to which the request was sent.
func (r *Request) LocalAddr() Addr { return r.id.LocalAddr() }

// RemoteAddr returns the address of the peer.
func (r *Request) RemoteAddr() Addr { return r.id.RemoteAddr() }

// Delay requests more time from the peer (MRA), up to 69 s if its manager agrees. It may be repeated.
func (r *Request) Delay() error { return r.id.Delay() }

// Accept establishes the connection. Config.Private goes to the peer's application, up to AcceptLen-12 bytes, for a
// plain peer AcceptLen. After an error the peer was rejected, and nothing is left.
// Errors: those of ID.CreateQP and ID.Accept, InvalidParameter.
func (r *Request) Accept(ctx context.Context) (*Conn, error) {
	const verb = "Request.Accept"
	cfg := r.Config
	plain := r.hello == hello{}
	err := cfg.complete(verb)
	if err == nil && cfg.Plain != plain {
		err = failure.Invalid(verb, "Config.Plain was changed to %v; the peer's request determines it", cfg.Plain)
	}
	if err != nil {
		return nil, failure.Op("accept", r.LocalAddr(), r.RemoteAddr(), errors.Join(err, r.id.Close()))
	}
	c, err := newConn(r.id, cfg, plain)
	if err != nil {
		return nil, failure.Op("accept", r.LocalAddr(), r.RemoteAddr(), errors.Join(err, r.id.Close()))
	}
	c.connected(r.hello)
	if err := r.id.Accept(ctx, cmid.ConnParam{Private: cfg.private(cfg.Private, plain),
		MinRNRTimer: rnrTimer}); err != nil {
		return nil, failure.Op("accept", r.LocalAddr(), r.RemoteAddr(), errors.Join(err, c.e.close(err)))
	}
	return c, nil
}

// Reject rejects the request. reason goes to the peer's application, up to RejectLen bytes.
func (r *Request) Reject(reason []byte) error {
	err := r.id.Reject(reason)
	if cerr := r.id.Close(); cerr != nil {
		err = errors.Join(err, fmt.Errorf("rdmacm: closing a rejected request: %w", cerr))
	}
	return err
}

// ID returns the underlying ID, for programs that create the QP, post and poll by themselves. The program then accepts
// or rejects, and closes, the ID, and does not use the Request any more.
func (r *Request) ID() *cmid.ID { return r.id }
