package rdmacm

import (
	"context"
	"net/netip"

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
