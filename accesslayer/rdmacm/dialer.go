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

// Dialer connects to listeners. Only Manager must be set.
type Dialer struct {
	Manager *Manager
	// Local is the address from which to connect; the zero value: any.
	Local netip.AddrPort
	// ID describes the port space, partition and so on. Its Type must be RC.
	ID cmid.IDConfig
	// Conn describes this end of the connection.
	Conn ConnConfig
}

// Dial connects to remote with the defaults of Dialer.
func (m *Manager) Dial(ctx context.Context, remote netip.AddrPort) (*Conn, error) {
	return (&Dialer{Manager: m}).Dial(ctx, remote)
}

// ErrPlainPeer is in the error of a Dial whose peer accepted and is not a Conn: set ConnConfig.Plain for such peers.
var ErrPlainPeer = errors.New("the peer does not count messages (set ConnConfig.Plain to connect to it)")

// Dial connects to remote and returns the established connection. After an error nothing is left.
// Errors: those of the steps of ID (EADDRNOTAVAIL, EHOSTUNREACH, ECONNREFUSED, *cm.RejectError, cm.ErrTimeout, the
// context's); ErrPlainPeer; InvalidParameter.
func (d *Dialer) Dial(ctx context.Context, remote netip.AddrPort) (*Conn, error) {
	c, err := d.dial(ctx, remote)
	if err != nil {
		space := d.ID.Space
		if space == 0 {
			space = cmid.TCP
		}
		to := Addr{Space: space, AddrPort: remote, Service: d.ID.Service}
		return nil, failure.Op("dial", Addr{Space: space}, to, err)
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, remote netip.AddrPort) (*Conn, error) {
	const verb = "Dialer.Dial"
	if d.Manager == nil {
		return nil, failure.Invalid(verb, "Dialer.Manager is nil")
	}
	cfg := d.Conn
	if err := cfg.complete(verb); err != nil {
		return nil, err
	}
	if d.ID.Type != ci.RC || d.ID.Space == cmid.UDP {
		return nil, notRC(verb)
	}
	id, err := d.Manager.ids.NewID(d.ID)
	if err != nil {
		return nil, err
	}
	c, err := d.connect(ctx, id, remote, cfg)
	if err != nil {
		return nil, errors.Join(err, id.Close())
	}
	return c, nil
}

func (d *Dialer) connect(ctx context.Context, id *cmid.ID, remote netip.AddrPort, cfg ConnConfig) (*Conn, error) {
	if d.Local.IsValid() {
		if err := id.Bind(d.Local); err != nil {
			return nil, err
		}
	}
	if err := id.ResolveAddr(ctx, remote); err != nil {
		return nil, err
	}
	if err := id.ResolveRoute(ctx); err != nil {
		return nil, err
	}
	c, err := newConn(id, cfg, cfg.Plain)
	if err != nil {
		return nil, err // dial closes the ID
	}
	err = id.Connect(ctx, cmid.ConnParam{Private: cfg.private(cfg.Private, cfg.Plain), MinRNRTimer: rnrTimer})
	if err == nil {
		err = c.welcome(id.Reply())
	}
	if err != nil {
		return nil, errors.Join(err, c.e.close(err))
	}
	return c, nil
}

// welcome processes the private data of the reply.
func (c *Conn) welcome(reply []byte) error {
	c.reply = reply
	if c.plain {
		return nil
	}
	h, rest, ok, err := parseHello(reply)
	switch {
	case err != nil:
		return fmt.Errorf("rdmacm: the reply of the peer: %w", err)
	case !ok:
		return ErrPlainPeer
	}
	c.reply = rest
	c.connected(h)
	return nil
}
