package ucm

import (
	"cmp"
	"net/netip"
	"slices"

	"ciddk/accesslayer"
	"ciddk/ci"
)

// bindable returns the address to which an ID is bound for a program that binds it to a. As in Linux (cma_any_addr), a
// loopback address stands for all addresses of its family, except if a port has it.
func bindable(al *accesslayer.AL, a netip.AddrPort) netip.AddrPort {
	ip := a.Addr().Unmap()
	switch {
	case !ip.IsLoopback() || slices.Contains(addresses(al), ip):
		return a
	case ip.Is4():
		return netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port())
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), a.Port())
}

// reachable returns the address that is resolved for a program that resolves to. As in Linux (cma_resolve_loopback), a
// loopback address or the unspecified one stands for the machine itself: for the address of the ID, local, or for that
// of the first port, if possible of the same family. If a port has a loopback address, other loopback addresses are
// those of its peers.
func reachable(al *accesslayer.AL, local netip.Addr, to netip.AddrPort) netip.AddrPort {
	ip := to.Addr().Unmap()
	if !ip.IsLoopback() && !ip.IsUnspecified() {
		return to
	}
	list := addresses(al)
	if ip.IsLoopback() && slices.ContainsFunc(list, netip.Addr.IsLoopback) {
		return to
	}
	if local = local.Unmap(); slices.Contains(list, local) {
		return netip.AddrPortFrom(local, to.Port())
	}
	if len(list) == 0 {
		return to
	}
	merit := func(a netip.Addr) (n int) {
		if a.Is4() == ip.Is4() {
			n += 2
		}
		if !a.IsLinkLocalUnicast() {
			n++
		}
		return n
	}
	best := slices.MaxFunc(list, func(a, b netip.Addr) int { return cmp.Compare(merit(a), merit(b)) })
	return netip.AddrPortFrom(best, to.Port())
}

// addresses returns the addresses of all active ports.
func addresses(al *accesslayer.AL) (list []netip.Addr) {
	for _, adapter := range al.Adapters() {
		for _, p := range adapter.Attr().Ports {
			if p.State != ci.PortActive {
				continue
			}
			for _, g := range p.GIDs {
				if g.GID != (ci.GID{}) {
					list = append(list, netip.AddrFrom16(g.GID).Unmap())
				}
			}
		}
	}
	return list
}
