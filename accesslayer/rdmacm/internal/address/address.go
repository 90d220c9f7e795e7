// Package address has what accesslayer/rdmacm and the packages below it share about the addresses of ports.
package address

import (
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
)

// HopLimit is the hop limit of packets on Ethernet.
const HopLimit = 64

// GIDOf returns the GID of an IP address: IPv4 in its IPv6-mapped form (RoCEv2 annex A17.4), without zone.
func GIDOf(a netip.Addr) ci.GID { return a.As16() }

// AddrOf returns the address of a GID. It is invalid for the zero GID, as of the sender of a SIDR request without a
// GRH.
func AddrOf(g ci.GID) netip.Addr {
	if g == (ci.GID{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(g).Unmap()
}

// Zoned returns an address with the zone of an entry of a GID table, if the address needs one: the name of the
// interface that the entry belongs to.
func Zoned(a netip.Addr, gids []ci.GIDEntry, index int) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() && index < len(gids) {
		return a.WithZone(gids[index].Interface)
	}
	return a
}

// PortAttr returns the attributes of a port. Status: NotFound, InvalidPort.
func PortAttr(al *accesslayer.AL, p mads.Port) (*ci.PortAttr, error) {
	a, err := al.Adapter(p.CA)
	if err != nil {
		return nil, err
	}
	return a.Port(p.Num)
}
