package rdmacm

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/mad"
)

// Resolver finds ways to IP addresses. NewResolver makes the usual one; others may stand before it, for fabrics with static routes. All methods
// may be called concurrently.
type Resolver interface {
	// ResolveAddr chooses the HCA, the port and the GID from which to reach q.Remote: those of q.Local if that is valid.
	// Errors: syscall.EADDRNOTAVAIL (no HCA has q.Local), EHOSTUNREACH (none has an address from which to reach it), the context's.
	ResolveAddr(ctx context.Context, q Query) (Source, error)
	// ResolveRoute gives the path from there. Errors: EHOSTUNREACH, those of the subnet administrator, the context's.
	ResolveRoute(ctx context.Context, q Query, from Source) (cm.Path, error)
}

// Query is what a Resolver is asked.
type Query struct {
	Local, Remote netip.AddrPort // Local may be invalid, and either's port 0
	Service       mad.ServiceID
	TrafficClass  uint8
	PKey          ci.PKey     // 0: the default one
	LifeTime      mad.TimeExp // where nobody knows better
}

// Source is where packets leave, and one of its addresses.
type Source struct {
	Port     mads.Port
	Link     ci.Link
	GIDIndex uint16
	GID      ci.GID
	Addr     netip.Addr // what stands in the IP header of requests
}

// StaticResolver knows some paths by heart, as on direct links without a subnet manager, and asks another Resolver for the rest.
type StaticResolver struct {
	AL    *accesslayer.AL
	Paths map[netip.Addr]cm.Path // by remote address; not to be changed while in use
	Else  Resolver               // nil: there is no other way
}

var _ Resolver = (*StaticResolver)(nil)

// ResolveAddr implements Resolver: the source of a known path is its own.
func (r *StaticResolver) ResolveAddr(ctx context.Context, q Query) (Source, error) {
	p, ok := r.Paths[q.Remote.Addr().Unmap()]
	if !ok {
		if r.Else != nil {
			return r.Else.ResolveAddr(ctx, q)
		}
		return Source{}, fmt.Errorf("%w: there is no static path to %v", syscall.EHOSTUNREACH, q.Remote.Addr())
	}
	attr, err := portAttr(r.AL, p.Port)
	if err != nil {
		return Source{}, err
	}
	if int(p.AV.GRH.SGIDIndex) >= len(attr.GIDs) {
		return Source{}, invalid("StaticResolver.ResolveAddr", "the path to %v has GID %d of a port with %d", q.Remote.Addr(), p.AV.GRH.SGIDIndex, len(attr.GIDs))
	}
	gid := attr.GIDs[p.AV.GRH.SGIDIndex].GID
	if local := q.Local.Addr(); local.IsValid() && !local.IsUnspecified() && gidOf(local.Unmap()) != gid {
		return Source{}, fmt.Errorf("%w: the path to %v begins at %v, not at %v", syscall.EADDRNOTAVAIL, q.Remote.Addr(), addrOf(gid), local)
	}
	return Source{Port: p.Port, Link: attr.Link, GIDIndex: p.AV.GRH.SGIDIndex, GID: gid, Addr: addrOf(gid)}, nil
}

// ResolveRoute implements Resolver.
func (r *StaticResolver) ResolveRoute(ctx context.Context, q Query, from Source) (cm.Path, error) {
	p, ok := r.Paths[q.Remote.Addr().Unmap()]
	switch {
	case ok:
		return p, nil
	case r.Else != nil:
		return r.Else.ResolveRoute(ctx, q, from)
	}
	return cm.Path{}, fmt.Errorf("%w: there is no static path to %v", syscall.EHOSTUNREACH, q.Remote.Addr())
}
