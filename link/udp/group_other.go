//go:build !unix

package udp

import (
	"net"
	"net/netip"
)

// listenGroup makes a socket that hears a multicast group. Windows knows no socket bound to a group: this one is bound
// to the wildcard address, and what it hears beside the group fails the ICRC, which covers the destination.
func listenGroup(at netip.AddrPort, ifi *net.Interface) (*net.UDPConn, error) {
	return net.ListenMulticastUDP(network(at.Addr()), ifi, net.UDPAddrFromAddrPort(at))
}
