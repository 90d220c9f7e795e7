package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// IDListener receives requests. All methods may be called concurrently.
type IDListener struct {
	id *ID
	l  cm.Listener
}

// Offsets in the IP header of requests (annex A11), by which the connection manager tells listeners on one port apart.
const (
	offsetIPVersion   = 1
	offsetDestination = 20
)

// Listen begins to receive requests for the bound address; an ID that is not bound gets a free port of all addresses. The Listener takes the
// ID over. Errors: EADDRINUSE (somebody else has the port, with ReuseAddr or in another process of the same daemon), InvalidState.
func (i *ID) Listen(backlog int) (*IDListener, error) {
	l, err := i.listen(backlog)
	return l, i.fail("listen", err)
}

func (i *ID) listen(backlog int) (*IDListener, error) {
	was, err := i.enter("Listen", listening, idle, bound)
	if err != nil {
		return nil, err
	}
	if was == idle {
		if err := i.bind(netip.AddrPort{}); err != nil {
			i.leave(idle)
			return nil, err
		}
	}
	i.mu.Lock()
	b, at, port := i.binding, i.at, i.local.Port()
	i.mu.Unlock()
	if b != nil {
		if err := i.m.ports.listen(b); err != nil {
			i.leave(bound)
			return nil, err
		}
	}
	cfg := cm.ListenConfig{Service: i.cfg.serviceID(port), Datagram: i.typ == ci.UD, Backlog: backlog, PKey: i.cfg.PKey}
	switch {
	case i.cfg.Service != 0:
		if at.IsValid() {
			cfg.GID = gidOf(at)
		}
	case !at.IsValid():
	case at.IsUnspecified(): // any of IPv4
		cfg.Offset, cfg.Compare = offsetIPVersion, []byte{4 << 4}
	default:
		h, err := mad.NewIPCM(netip.AddrPortFrom(at, 0), at)
		if err != nil {
			i.leave(bound)
			return nil, err
		}
		cfg.Offset, cfg.Compare = offsetDestination, h.Destination[:]
	}
	l, err := i.m.cm.Listen(cfg)
	if err != nil {
		i.m.ports.unlisten(b)
		i.leave(bound)
		if errors.Is(err, ci.InvalidSetting) {
			err = addrInUse(err)
		}
		return nil, err
	}
	ln := &IDListener{id: i, l: l}
	i.mu.Lock()
	gone := i.state == closed
	if !gone {
		i.listener, i.state = ln, listening
	}
	i.mu.Unlock()
	if gone { // Close did not see it
		return nil, errors.Join(net.ErrClosed, l.Close())
	}
	return ln, nil
}

// Addr is what the Listener listens on, with the port chosen.
func (l *IDListener) Addr() Addr { return l.id.LocalAddr() }

// Close ends listening: requests that wait are refused, IDs live on. It is idempotent.
func (l *IDListener) Close() error { return l.id.Close() }

// Accept waits for a request. The ID it returns has its addresses, port and path, and the peer's terms: see ID.Request. Give it a QP and
// Accept it, or Reject it; the peer waits for some seconds. Requests whose IP header is wrong, or that come from another port than
// they name, are refused and not seen here.
// Errors: the context's; net.ErrClosed.
func (l *IDListener) Accept(ctx context.Context) (*ID, error) {
	for {
		var id *ID
		if l.id.typ == ci.UD {
			r, err := l.l.AcceptLookup(ctx)
			if err != nil {
				return nil, l.fail(err)
			}
			id = l.lookup(r)
		} else {
			c, err := l.l.Accept(ctx)
			if err != nil {
				return nil, l.fail(err)
			}
			id = l.request(c)
		}
		if id == nil {
			continue
		}
		if err := l.id.m.add(id); err != nil {
			return nil, l.fail(errors.Join(err, id.Close()))
		}
		return id, nil
	}
}

func (l *IDListener) fail(err error) error {
	if errors.Is(err, cm.ErrClosed) {
		err = net.ErrClosed
	}
	return opError("accept", l.Addr(), Addr{}, err)
}

// request makes an ID of a request, or refuses it: nil.
func (l *IDListener) request(c cm.Conn) *ID {
	r := c.Request()
	if r == nil {
		_ = c.Close()
		return nil
	}
	from, to := ci.GID(r.REQ.Primary.LocalGID), ci.GID(r.REQ.Primary.RemoteGID)
	typ := ci.RC
	switch r.Service {
	case mad.ServiceRC:
	case mad.ServiceUC:
		typ = ci.UC
	default:
		_ = c.Reject(mad.RejInvalidTransport, nil, nil)
		return nil
	}
	id, reason := l.receive(r.PrivateData[:], r.Primary, from, to)
	if id != nil {
		reason = inOwnName(r, id.src.Link, l.id.m.lmc(r.Primary.Port))
	}
	if reason != 0 {
		_ = c.Reject(reason, nil, nil)
		return nil
	}
	id.typ, id.conn = typ, c
	id.request = &RequestParam{Private: id.request.Private, ResponderResources: r.ResponderRes, InitiatorDepth: r.InitiatorDepth,
		Retries: r.RetryCount, RNRRetries: r.RNRRetryCount, FlowControl: r.FlowControl, SRQ: r.SRQ, QPN: ci.QPN(r.LocalQPN), Type: typ}
	return id
}

// lookup is request for datagrams.
func (l *IDListener) lookup(r cm.LookupRequest) *ID {
	path := r.Path()
	to := l.id.m.gid(path.Port, path.AV.GRH.SGIDIndex)
	id, reason := l.receive(r.Request().PrivateData[:], path, path.AV.GRH.DGID, to)
	if id == nil {
		status := mad.SIDRRejected
		if reason == mad.RejInvalidServiceID {
			status = mad.SIDRUnsupportedService
		}
		_ = r.Reject(status, nil, nil)
		return nil
	}
	id.typ, id.lookup = ci.UD, r
	id.request.Type = ci.UD
	id.peer = Peer{AV: path.AV, QKey: QKey}
	return id
}

// receive makes an ID of what a request says of its sender, or gives the reason to refuse it.
func (l *IDListener) receive(private []byte, path cm.Path, from, to ci.GID) (*ID, mad.RejReason) {
	m, cfg := l.id.m, l.id.cfg
	c, err := cfg.parseCaller(private, from, to)
	if err != nil {
		return nil, mad.RejUnsupported
	}
	attr, err := portAttr(m.al, path.Port)
	if err != nil {
		return nil, mad.RejNoResources // the HCA has gone since
	}
	if !c.check(attr.Link, from, to) {
		return nil, mad.RejInvalidServiceID
	}
	id := newID(m, cfg)
	id.state = requested
	id.local, id.remote = netip.AddrPortFrom(c.to, l.Addr().Port()), c.from
	id.path = path
	id.src = Source{Port: path.Port, Link: attr.Link, GIDIndex: path.AV.GRH.SGIDIndex, GID: to, Addr: c.to}
	id.request = &RequestParam{Private: c.data}
	return id, 0
}

// inOwnName returns the reason to reject a request that names another port than the one that sent it, or 0. Accepting it
// would make our QP send to that port, which may have a connection with us already. Ports are compared by GID on Ethernet
// and between subnets, and by LID within an InfiniBand subnet, where LMC assigns several LIDs to a port.
func inOwnName(r *cm.Request, link ci.Link, lmc uint8) mad.RejReason {
	named, av := &r.REQ.Primary, &r.From.AV
	if link == ci.LinkEthernet || named.LocalLID == permissiveLID {
		if av.Global && av.GRH.DGID != named.LocalGID {
			return mad.RejPrimaryGID
		}
		return 0
	}
	if av.DLID != 0 && (uint16(av.DLID)^named.LocalLID)>>lmc != 0 {
		return mad.RejPrimaryLID
	}
	return 0
}

const permissiveLID = 0xffff

// lmc is a port's.
func (m *Manager) lmc(p mads.Port) uint8 {
	attr, err := portAttr(m.al, p)
	if err != nil {
		return 0
	}
	return attr.LMC
}

// gid is a row of a port's table, zero if there is none.
func (m *Manager) gid(p mads.Port, index uint16) ci.GID {
	attr, err := portAttr(m.al, p)
	if err != nil || int(index) >= len(attr.GIDs) {
		return ci.GID{}
	}
	return attr.GIDs[index].GID
}
