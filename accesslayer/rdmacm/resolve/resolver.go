package resolve

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/accesslayer/rdmacm/internal/failure"
	"ciddk/ci"
	"ciddk/mad"
)

// Resolver finds ports and paths for IP addresses. NewSystem returns the usual one; another one may precede it, for
// fabrics with static routes. All methods may be called concurrently.
//
// A method returns without waiting, and calls done exactly once: before it returns, or later on any goroutine with no
// lock held. When ctx ends, the result is the context's error. While a result is outstanding, no goroutine waits for
// it.
type Resolver interface {
	// ResolveAddr finds the HCA, the port and the GID from which to reach q.Remote: those of q.Local if that is valid.
	// Errors: syscall.EADDRNOTAVAIL (no HCA has q.Local), EHOSTUNREACH (no HCA has an address from which to reach it),
	// the context's.
	ResolveAddr(ctx context.Context, q Query, done func(Source, error))
	// ResolveRoute finds the path from there. Errors: EHOSTUNREACH, those of the subnet administrator, the context's.
	ResolveRoute(ctx context.Context, q Query, from Source, done func(cm.Path, error))
}

// Query describes what a Resolver looks for.
type Query struct {
	Local, Remote netip.AddrPort // Local may be invalid, and both ports may be 0
	Service       mad.ServiceID
	TrafficClass  uint8
	PKey          ci.PKey     // 0: the default partition
	LifeTime      mad.TimeExp // of a path whose lifetime is not known otherwise
}

// Source is the port from which packets are sent, and one of its addresses.
type Source struct {
	Port     mads.Port
	Link     ci.Link
	GIDIndex uint16
	GID      ci.GID
	Addr     netip.Addr // the source address in the IP header of requests
}

// Static has a table of paths, as for direct links without a subnet manager, and uses another Resolver for all
// other addresses.
type Static struct {
	AL    *accesslayer.AL
	Paths map[netip.Addr]cm.Path // by remote address; it must not change while in use
	Else  Resolver               // nil: other addresses are unreachable
}

var _ Resolver = (*Static)(nil)

// ResolveAddr implements Resolver: the source of a path in the table is that of the path.
func (r *Static) ResolveAddr(ctx context.Context, q Query, done func(Source, error)) {
	p, ok := r.Paths[q.Remote.Addr().Unmap()]
	switch {
	case ok:
		done(r.source(q, p))
	case r.Else != nil:
		r.Else.ResolveAddr(ctx, q, done)
	default:
		done(Source{}, fmt.Errorf("%w: there is no static path to %v", syscall.EHOSTUNREACH, q.Remote.Addr()))
	}
}

// source returns the source of a path.
func (r *Static) source(q Query, p cm.Path) (Source, error) {
	attr, err := address.PortAttr(r.AL, p.Port)
	if err != nil {
		return Source{}, err
	}
	index := p.AV.GRH.SGIDIndex
	if int(index) >= len(attr.GIDs) {
		return Source{}, failure.Invalid("StaticResolver.ResolveAddr",
			"the path to %v has GID index %d, and the port has %d GIDs", q.Remote.Addr(), index, len(attr.GIDs))
	}
	gid := attr.GIDs[index].GID
	if local := q.Local.Addr(); local.IsValid() && !local.IsUnspecified() && address.GIDOf(local.Unmap()) != gid {
		return Source{}, fmt.Errorf("%w: the path to %v begins at %v, not at %v",
			syscall.EADDRNOTAVAIL, q.Remote.Addr(), address.AddrOf(gid), local)
	}
	return Source{Port: p.Port, Link: attr.Link, GIDIndex: index, GID: gid, Addr: address.AddrOf(gid)}, nil
}

// ResolveRoute implements Resolver.
func (r *Static) ResolveRoute(ctx context.Context, q Query, from Source, done func(cm.Path, error)) {
	p, ok := r.Paths[q.Remote.Addr().Unmap()]
	switch {
	case ok:
		done(p, nil)
	case r.Else != nil:
		r.Else.ResolveRoute(ctx, q, from, done)
	default:
		done(cm.Path{}, fmt.Errorf("%w: there is no static path to %v", syscall.EHOSTUNREACH, q.Remote.Addr()))
	}
}
