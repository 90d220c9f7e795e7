//go:build unix

package udp

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
)

// listenGroup returns a socket that is bound to a multicast group and receives nothing else. Package net would bind it
// to the wildcard address, which fails while the port's own socket is bound without SO_REUSEADDR.
func listenGroup(at netip.AddrPort, ifi *net.Interface) (*net.UDPConn, error) {
	family := unix.AF_INET6
	sa6 := &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	if rocev2.NeedsZone(at.Addr()) && ifi != nil {
		sa6.ZoneId = uint32(ifi.Index)
	}
	var sa unix.Sockaddr = sa6
	if at.Addr().Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "multicast group")
	defer f.Close() // FilePacketConn has its own descriptor
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}
