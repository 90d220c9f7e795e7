package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"ciddk/link/internal/rocev2"
)

// openSources opens the sending sockets, which receive nothing. They are bound to all addresses of the machine, so that
// no other program can bind one of their ports: a program with the same port at any address could send with our source
// address (IP_PKTINFO), and its packets would look like those of the peer that StrictSource accepts.
func (s *mmsgSocket) openSources(c *Config) error {
	p := s.port
	s.from, p.Sources = nil, nil
	all := netip.IPv6Unspecified()
	if p.Addr.Is4() {
		all = netip.IPv4Unspecified()
	}
	for i := range c.SourcePorts {
		fd, err := s.open(netip.AddrPortFrom(all, c.sourcePort(i)), sourceSocket)
		if err != nil {
			return c.explainSource(i, err)
		}
		s.from = append(s.from, fd)
		port, err := boundPort(fd)
		if err != nil {
			return err
		}
		p.Sources = append(p.Sources, port)
		if err := s.setUpSending(fd); err != nil {
			return err
		}
	}
	return nil
}

// setSource sets the source address of a packet from a socket that is bound to all addresses (struct in_pktinfo or
// in6_pktinfo: ip(7), ipv6(7)).
func (o *osRoute) setSource(a netip.Addr, ifindex int) {
	b := o.ctl[o.nctl:]
	if a.Is4() {
		const size, source = 12, 4
		v4 := a.As4()
		copy(b[unix.CmsgLen(0)+source:], v4[:])
		o.nctl += putControl(b, unix.IPPROTO_IP, unix.IP_PKTINFO, size)
		return
	}
	const size, index = 20, 16
	v6 := a.As16()
	copy(b[unix.CmsgLen(0):], v6[:])
	if rocev2.NeedsZone(a) {
		binary.NativeEndian.PutUint32(b[unix.CmsgLen(0)+index:], uint32(ifindex))
	}
	o.nctl += putControl(b, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, size)
}

// closeSources closes the sending sockets that are not the port's own.
func (s *mmsgSocket) closeSources() error {
	var errs []error
	for _, fd := range s.from {
		if fd != s.fd {
			errs = append(errs, unix.Close(fd))
		}
	}
	s.from = nil
	return errors.Join(errs...)
}

// boundPort returns the UDP port of a socket.
func boundPort(fd int) (uint16, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("getsockname: %w", err)
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(sa.Port), nil
	case *unix.SockaddrInet6:
		return uint16(sa.Port), nil
	}
	return 0, fmt.Errorf("getsockname: unexpected address %T", sa)
}
