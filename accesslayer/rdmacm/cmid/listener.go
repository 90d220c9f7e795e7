package cmid

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/mad"
)

// Listener receives requests as IDs. All methods may be called concurrently.
type Listener struct {
	id *ID
	l  cm.Listener
}

// Offsets in the IP header of requests (annex A11). The connection manager uses them to tell listeners on one port
// apart.
const (
	offsetIPVersion   = 1
	offsetDestination = 20
)

// Listen begins to receive requests for the bound address. An ID that is not bound gets a free port of all addresses.
// The listener owns the ID then. With IDConfig.Events each request is an EventConnectRequest, and the next one follows
// when the program has taken it; without, requests come from Listener.Accept. backlog bounds the requests that wait;
// 0: 128. Errors: EADDRINUSE (the port is taken, with ReuseAddr or by another user of the CM service),
// InvalidState.
func (i *ID) Listen(backlog int) (*Listener, error) {
	l, err := i.listen(backlog)
	if err != nil {
		return nil, i.fail("listen", err)
	}
	if i.isShared {
		l.fetch()
	}
	return l, nil
}

func (i *ID) listen(backlog int) (*Listener, error) {
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
	src := i.src
	i.mu.Unlock()
	if b != nil {
		if err := b.Listen(); err != nil {
			i.leave(bound)
			return nil, err
		}
	}
	l, err := i.listenCM(at, src, port, backlog)
	if err != nil {
		if b != nil {
			b.Unlisten()
		}
		i.leave(bound)
		return nil, err
	}
	ln := &Listener{id: i, l: l}
	i.mu.Lock()
	cause := context.Cause(i.ctx)
	if cause == nil {
		i.listener, i.state = ln, listening
	}
	i.mu.Unlock()
	if cause != nil { // Close, or the removal of the HCA, did not find the listener
		return nil, errors.Join(cause, l.Close())
	}
	return ln, nil
}

// listenCM begins to listen at the connection manager. Requests do not carry zones, so a listener at an address with a
// zone takes those that arrive at the port of its interface.
func (i *ID) listenCM(at netip.Addr, src resolve.Source, port uint16, backlog int) (cm.Listener, error) {
	cfg := cm.ListenConfig{Service: i.cfg.serviceID(port), Datagram: i.typ == ci.UD, Backlog: backlog, PKey: i.cfg.PKey}
	if at.Zone() != "" {
		cfg.Port = src.Port
	}
	switch {
	case i.cfg.Service != 0:
		if at.IsValid() {
			cfg.GID = address.GIDOf(at)
		}
	case !at.IsValid():
	case at.IsUnspecified() && at.Is4():
		cfg.Offset, cfg.Compare = offsetIPVersion, []byte{4 << 4}
	case at.IsUnspecified():
		cfg.Offset, cfg.Compare = offsetIPVersion, []byte{6 << 4}
	default:
		h, err := mad.NewIPCM(netip.AddrPortFrom(at, 0), at)
		if err != nil {
			return nil, err
		}
		cfg.Offset, cfg.Compare = offsetDestination, h.Destination[:]
	}
	l, err := i.m.cm.Listen(cfg)
	if errors.Is(err, ci.InvalidSetting) {
		err = addrInUse(err)
	}
	return l, err
}

// Addr returns the address on which the listener listens, with the port.
func (l *Listener) Addr() Addr { return l.id.LocalAddr() }

// ID returns the ID that listens.
func (l *Listener) ID() *ID { return l.id }

// Close ends listening. Requests that wait are rejected; IDs that were returned are not affected. It is idempotent.
func (l *Listener) Close() error { return l.id.Close() }

// Accept waits for a request. The ID it returns has its addresses, port and path, and the peer's parameters: see
// ID.Request. Create a QP and accept it, or reject it; the peer waits for some seconds. Requests whose IP header is
// invalid, or that name another port than the one that sent them, are rejected and not returned.
// Errors: the context's; net.ErrClosed, and also ErrDeviceRemoved if the HCA to whose address the listener is bound was
// removed; InvalidState (with IDConfig.Events, requests are events).
func (l *Listener) Accept(ctx context.Context) (*ID, error) {
	if l.id.isShared {
		return nil, l.fail(failure.InvalidState("Listener.Accept", "the requests are events of IDConfig.Events"))
	}
	for {
		id, err := l.receiveRequest(ctx)
		if err != nil {
			return nil, l.fail(err)
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

// receiveRequest waits for a request. It returns nil for a request that was rejected.
func (l *Listener) receiveRequest(ctx context.Context) (*ID, error) {
	if l.id.typ == ci.UD {
		r, err := l.l.AcceptLookup(ctx)
		if err != nil {
			return nil, err
		}
		return l.lookup(r), nil
	}
	c, err := l.l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return l.request(c), nil
}

// fetch starts to wait for the next request. At most one request of a listener is on its EventChannel; the others wait
// at the connection manager, which bounds them and requests more time from their senders.
func (l *Listener) fetch() {
	// An error means that the listener is closed, here and below.
	if l.id.typ == ci.UD {
		_ = l.l.StartAcceptLookup(l.id.ctx, func(r cm.LookupRequest, err error) {
			if err == nil {
				l.offer(l.lookup(r))
			}
		})
		return
	}
	_ = l.l.StartAccept(l.id.ctx, func(c cm.Conn, err error) {
		if err == nil {
			l.offer(l.request(c))
		}
	})
}

// offer queues the event of a request. nil stands for a request that was rejected.
func (l *Listener) offer(id *ID) {
	if id == nil {
		l.fetch()
		return
	}
	if err := l.id.m.add(id); err != nil {
		_ = id.Close()
		return
	}
	l.id.queue(Event{Type: EventConnectRequest, ID: id, Listener: l, Private: id.request.Private})
}

func (l *Listener) fail(err error) error {
	if errors.Is(err, cm.ErrClosed) {
		if err = net.ErrClosed; errors.Is(l.id.Err(), ErrDeviceRemoved) {
			err = fmt.Errorf("%w: %w", err, l.id.Err())
		}
	}
	return failure.Op(opAccept, l.Addr(), Addr{}, err)
}

// request returns an ID for a request, or rejects it and returns nil.
func (l *Listener) request(c cm.Conn) *ID {
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
		reason = verifySender(r, id.src.Link, l.id.m.lmc(r.Primary.Port))
	}
	if reason != 0 {
		_ = c.Reject(reason, nil, nil)
		return nil
	}
	id.typ, id.conn = typ, c
	id.request = &RequestParam{Private: id.request.Private, ResponderResources: r.ResponderRes,
		InitiatorDepth: r.InitiatorDepth, Retries: r.RetryCount, RNRRetries: r.RNRRetryCount,
		FlowControl: r.FlowControl, SRQ: r.SRQ, QPN: ci.QPN(r.LocalQPN), Type: typ}
	return id
}

// lookup is request for datagrams.
func (l *Listener) lookup(r cm.LookupRequest) *ID {
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

// receive returns an ID with the addresses of a request, or the reason to reject it.
func (l *Listener) receive(private []byte, path cm.Path, from, to ci.GID) (*ID, mad.RejReason) {
	m, cfg := l.id.m, l.id.cfg
	c, err := cfg.parseCaller(private, from, to)
	if err != nil {
		return nil, mad.RejUnsupported
	}
	attr, err := address.PortAttr(m.al, path.Port)
	if err != nil {
		return nil, mad.RejNoResources // the HCA was removed meanwhile
	}
	if !c.check(attr.Link, from, to) {
		return nil, mad.RejInvalidServiceID
	}
	l.id.eventsMu.Lock()
	if l.id.isShared {
		cfg.Events = l.id.events // Migrate may have changed it
	}
	l.id.eventsMu.Unlock()
	id := newID(m, cfg)
	id.state = requested
	index := int(path.AV.GRH.SGIDIndex)
	c.to = address.Zoned(c.to, attr.GIDs, index)
	c.from = netip.AddrPortFrom(address.Zoned(c.from.Addr(), attr.GIDs, index), c.from.Port())
	id.local, id.remote = netip.AddrPortFrom(c.to, l.Addr().Port()), c.from
	id.path = path
	id.src = resolve.Source{Port: path.Port, Link: attr.Link, GIDIndex: path.AV.GRH.SGIDIndex, GID: to, Addr: c.to}
	id.request = &RequestParam{Private: c.data}
	return id, 0
}

// verifySender returns the reason to reject a request that names another port than the one that sent it, or 0.
// Accepting it would make our QP send to that port, which may have a connection with us already. Ports are compared by
// GID on Ethernet and between subnets, and by LID within an InfiniBand subnet, where LMC assigns several LIDs to a
// port.
func verifySender(r *cm.Request, link ci.Link, lmc uint8) mad.RejReason {
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

// lmc returns the LMC of a port.
func (m *Manager) lmc(p mads.Port) uint8 {
	attr, err := address.PortAttr(m.al, p)
	if err != nil {
		return 0
	}
	return attr.LMC
}

// gid returns an entry of a port's GID table, or the zero GID if there is none.
func (m *Manager) gid(p mads.Port, index uint16) ci.GID {
	attr, err := address.PortAttr(m.al, p)
	if err != nil || int(index) >= len(attr.GIDs) {
		return ci.GID{}
	}
	return attr.GIDs[index].GID
}
