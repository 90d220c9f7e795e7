package rdmacm

import (
	"context"
	"net/netip"

	"ciddk/ci"
)

// JoinConfig says how to join a group.
type JoinConfig struct {
	SendOnly bool // the QP does not receive what is sent to the group
}

// Join makes the ID's QP a member of a multicast group, an IP group or, on InfiniBand, a GID written as an IPv6 address. The ID must have
// a port (Bind to an address, or ResolveAddr) and a UD QP, unless SendOnly. On Ethernet the operating system joins the IP group (IGMP, MLD);
// on InfiniBand the subnet administrator makes the port a member.
// Errors: InvalidGID (no group), InvalidServiceType (not UD), those of the driver and of the subnet administrator, the context's.
func (i *ID) Join(ctx context.Context, group netip.Addr, cfg JoinConfig) (*Group, error) {
	return nil, ci.Unsupported
}

// Group is a membership.
type Group struct{}

// Addr is the group.
func (g *Group) Addr() netip.Addr { return netip.Addr{} }

// Peer is where to send so that all members receive it: QPN 0xffffff.
func (g *Group) Peer() Peer { return Peer{} }

// Leave ends the membership. It is idempotent; closing the ID does it, too.
func (g *Group) Leave(ctx context.Context) error { return ci.Unsupported }
