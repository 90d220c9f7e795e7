package reference

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// openSources opens the sockets to send from, which receive nothing.
func (s *mmsgSocket) openSources(c *UDPConfig) error {
	p := s.port
	s.from, p.sources = nil, nil
	for i := range c.SourcePorts {
		fd, err := s.open(netip.AddrPortFrom(p.addr, c.sourcePort(i)), sourceSocket)
		if err != nil {
			return c.explainSource(i, err)
		}
		s.from = append(s.from, fd)
		port, err := boundPort(fd)
		if err != nil {
			return err
		}
		p.sources = append(p.sources, port)
		if err := s.setUpSending(fd); err != nil {
			return err
		}
	}
	return nil
}

// closeSources closes the sockets to send from that are not the port's own.
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
