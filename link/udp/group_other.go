//go:build !unix

package udp

import (
	"net"
	"net/netip"
)

// listenGroup returns a socket that receives a multicast group. Windows cannot bind a socket to a group, so this one is
// bound to the wildcard address. Datagrams to other addresses fail the ICRC, which covers the destination.
func listenGroup(at netip.AddrPort, ifi *net.Interface) (*net.UDPConn, error) {
	return net.ListenMulticastUDP(network(at.Addr()), ifi, net.UDPAddrFromAddrPort(at))
}
