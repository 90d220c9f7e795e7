package cmid

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/mad"
)

// Bind sets the local address and port. The zero address stands for any address, port 0 for a free port.
// Errors: EADDRINUSE (with ErrAnyAddr if one of the two addresses is any address); EADDRNOTAVAIL (no HCA has the
// address); InvalidState (the ID is bound).
func (i *ID) Bind(local netip.AddrPort) error {
	_, err := i.enter("Bind", idle, idle)
	if err == nil {
		err = i.bind(local)
	}
	return i.fail("bind", err)
}

func (i *ID) bind(local netip.AddrPort) error {
	addr := canonical(local.Addr(), i.cfg.IPv6Only)
	var src resolve.Source
	if addr.IsValid() && !addr.IsUnspecified() {
		var err error
		if src, err = resolve.Local(i.m.al, addr); err != nil {
			return err
		}
		addr = src.Addr // with its zone
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.state == closed:
		return net.ErrClosed
	case i.binding != nil:
		return failure.InvalidState("ID.Bind", "the ID is bound to %v", i.local)
	}
	if i.cfg.Service == 0 {
		at := netip.AddrPortFrom(addr, local.Port())
		b, err := i.m.ports.Bind(i.cfg.Space, at, i.cfg.ReuseAddr)
		if err != nil {
			return err
		}
		i.binding = b
		i.local = netip.AddrPortFrom(addr, b.Port())
	} else {
		i.local = netip.AddrPortFrom(addr, 0)
	}
	i.at, i.src = addr, src
	i.state = bound
	return nil
}

// rebind takes the ID's port again after a change of its configuration, which was another one before. After an error
// the configuration is what it was. i.mu is held.
func (i *ID) rebind(was IDConfig) error {
	if i.binding == nil || was.IPv6Only == i.cfg.IPv6Only && was.ReuseAddr == i.cfg.ReuseAddr {
		return nil
	}
	i.binding.Release()
	take := func(addr netip.Addr) (err error) {
		i.binding, err = i.m.ports.Bind(i.cfg.Space, netip.AddrPortFrom(addr, i.local.Port()), i.cfg.ReuseAddr)
		return err
	}
	addr := canonical(i.at, i.cfg.IPv6Only)
	err := take(addr)
	if err == nil {
		if i.at = addr; i.state == bound {
			i.local = netip.AddrPortFrom(addr, i.local.Port())
		}
		return nil
	}
	i.cfg = was
	if take(i.at) != nil { // another ID has taken the port meanwhile
		i.binding = nil
		if i.state == bound {
			i.state = idle
		}
	}
	return err
}

// IsBound reports whether the ID has a local port.
func (i *ID) IsBound() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.binding != nil
}

func (i *ID) query() resolve.Query {
	i.mu.Lock()
	defer i.mu.Unlock()
	return resolve.Query{Local: i.local, Remote: i.remote, Service: i.cfg.serviceID(i.remote.Port()),
		TrafficClass: i.cfg.TrafficClass, PKey: i.cfg.PKey, LifeTime: i.cfg.LifeTime}
}

// ResolveAddr finds the HCA, port and GID from which to reach remote, or those of the address that the ID is bound to:
// see Source. An ID that is not bound gets a free port. ResolveAddr may be called again before Connect, but for an ID
// with a QP the result must be the same HCA. Errors: those of Resolver.ResolveAddr, the context's.
func (i *ID) ResolveAddr(ctx context.Context, remote netip.AddrPort) error {
	err := i.await(ctx, opResolveAddr, func(report func(Event)) (*step, error) {
		return i.resolveAddr(remote, 0, report)
	})
	return err
}

// StartResolveAddr starts ResolveAddr. The result is EventAddrResolved or EventAddrError, which may be queued before
// StartResolveAddr returns. After the timeout the step ends with syscall.ETIMEDOUT; 0 is no timeout.
// Errors: InvalidState, EADDRINUSE; then there is no event.
func (i *ID) StartResolveAddr(remote netip.AddrPort, timeout time.Duration) error {
	_, err := i.resolveAddr(remote, timeout, i.push)
	return err
}

func (i *ID) resolveAddr(remote netip.AddrPort, timeout time.Duration, report func(Event)) (*step, error) {
	was, err := i.enter("ResolveAddr", connecting, idle, bound, addrResolved, routeResolved)
	if err != nil {
		return nil, i.fail(opResolveAddr, err)
	}
	if was == idle {
		if err := i.bind(netip.AddrPort{}); err != nil {
			i.leave(idle)
			return nil, i.fail(opResolveAddr, err)
		}
		was = bound
		i.leave(connecting) // bind has set the state to bound
	}
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	q := i.query()
	q.Remote, q.Service = remote, i.cfg.serviceID(remote.Port())
	q.Local = netip.AddrPortFrom(i.at, q.Local.Port()) // not what an earlier call resolved; only steps write i.at
	s := i.newStep(opResolveAddr, timeout, report)
	i.m.resolver.ResolveAddr(s.ctx, q, func(src resolve.Source, err error) {
		if !s.claim() {
			return
		}
		to := was
		if err == nil {
			err = i.setSource(remote, src)
		}
		if err == nil {
			to = addrResolved
		}
		s.finish(to, Event{Type: resultType(err, EventAddrResolved, EventAddrError), Err: err})
	})
	return s, nil
}

// setSource sets the result of ResolveAddr.
func (i *ID) setSource(remote netip.AddrPort, src resolve.Source) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.qp != nil && i.src.Port.CA != src.Port.CA {
		return failure.InvalidState("ID.ResolveAddr", "%v is reached from HCA %016x, and the QP is on HCA %016x",
			remote, uint64(src.Port.CA), uint64(i.src.Port.CA))
	}
	if a := remote.Addr(); a.Is6() && a.IsLinkLocalUnicast() {
		remote = netip.AddrPortFrom(a.WithZone(src.Addr.Zone()), remote.Port())
	}
	i.remote, i.src = remote, src
	i.local = netip.AddrPortFrom(src.Addr, i.local.Port())
	return nil
}

// ResolveRoute finds the path: see Path. Errors: those of Resolver.ResolveRoute, the context's.
func (i *ID) ResolveRoute(ctx context.Context) error {
	err := i.await(ctx, opResolveRoute, func(report func(Event)) (*step, error) {
		return i.resolveRoute(0, report)
	})
	return err
}

// StartResolveRoute starts ResolveRoute. The result is EventRouteResolved or EventRouteError, which may be queued
// before StartResolveRoute returns. After the timeout the step ends with syscall.ETIMEDOUT; 0 is no timeout.
// Errors: InvalidState; then there is no event.
func (i *ID) StartResolveRoute(timeout time.Duration) error {
	_, err := i.resolveRoute(timeout, i.push)
	return err
}

func (i *ID) resolveRoute(timeout time.Duration, report func(Event)) (*step, error) {
	was, err := i.enter("ResolveRoute", connecting, addrResolved, routeResolved)
	if err != nil {
		return nil, i.fail(opResolveRoute, err)
	}
	s := i.newStep(opResolveRoute, timeout, report)
	i.m.resolver.ResolveRoute(s.ctx, i.query(), i.Source(), func(p cm.Path, err error) {
		if !s.claim() {
			return
		}
		to := was
		if err == nil {
			to = routeResolved
			i.mu.Lock()
			i.path = p
			i.mu.Unlock()
		}
		s.finish(to, Event{Type: resultType(err, EventRouteResolved, EventRouteError), Err: err})
	})
	return s, nil
}

// SetPath sets the path, instead of ResolveRoute or after it. Status: InvalidState, InvalidPort (not the port of
// Source).
func (i *ID) SetPath(p cm.Path) error {
	const verb = "ID.SetPath"
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.state != addrResolved && i.state != routeResolved:
		return failure.InvalidState(verb, "the ID is in the state: %v", i.state)
	case p.Port != i.src.Port:
		detail := fmt.Sprintf("the path begins at %+v, the ID's port is %+v", p.Port, i.src.Port)
		return &ci.Error{Verb: verb, Status: ci.InvalidPort, Detail: detail}
	}
	i.path, i.state = p, routeResolved
	return nil
}

// StartSetRecord sets the path to that of a record of a subnet administrator, instead of ResolveRoute, and reports
// EventRouteResolved, as rdma_set_ib_path of Linux does. On Ethernet, paths have no LIDs.
// Status: InvalidParameter (MTU or life time), InvalidState (the address is not resolved, or the path is).
func (i *ID) StartSetRecord(rec *mad.PathRecord) error {
	const verb = "ID.StartSetRecord"
	if mtu := ci.MTU(rec.MTU); mtu < ci.MTU256 || mtu > ci.MTU4096 || rec.LifeTime > mad.MaxTimeExp {
		return failure.Invalid(verb, "the MTU is %d and the life time %d, want an IBTA MTU and at most %d", rec.MTU,
			rec.LifeTime, mad.MaxTimeExp)
	}
	i.mu.Lock()
	was, from := i.state, i.src
	i.mu.Unlock()
	if was == addrResolved {
		p, err := address.PortAttr(i.m.al, from.Port)
		if err != nil {
			return err // the adapter was removed
		}
		path := resolve.PathOf(rec, from, p)
		if p.Link != ci.LinkInfiniBand {
			path.AV = ci.AVAttr{Port: from.Port.Num, Global: true, GRH: path.AV.GRH}
		}
		i.mu.Lock()
		if was = i.state; was == addrResolved {
			i.path, i.state = path, routeResolved
		}
		i.mu.Unlock()
	}
	if was != addrResolved {
		return failure.InvalidState(verb, "the ID is in the state: %v", was)
	}
	i.push(Event{Type: EventRouteResolved})
	return nil
}
