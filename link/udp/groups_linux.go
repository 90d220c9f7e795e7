package udp

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

type groupSocket struct {
	group netip.Addr
	fd    int
	n     int // group memberships
}

func (s *mmsgSocket) openGroup(at netip.AddrPort) (int, error) {
	if s.raw {
		return openRaw(at)
	}
	return s.open(at, sharedSocket)
}

func (s *mmsgSocket) Join(group netip.Addr) error {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	if s.closed.Load() {
		return errors.New("the port has been closed")
	}
	for i := range s.groups {
		if s.groups[i].group == group {
			s.groups[i].n++
			return nil
		}
	}
	if len(s.groups) == maxGroups {
		return fmt.Errorf("%d multicast groups are joined, which is the most", maxGroups)
	}
	fd, err := s.openGroup(netip.AddrPortFrom(group, s.port.UDP))
	if err != nil {
		return fmt.Errorf("multicast group %v: %w", group, err)
	}
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP,
			&unix.IPMreqn{Multiaddr: group.As4(), Address: s.port.Addr.As4(), Ifindex: int32(s.port.Index)})
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
		}
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(s.port.Index)})
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("joining multicast group %v on interface %q: %w", group, s.port.Interface, err)
	}
	s.lost.watch(fd)
	s.groups = append(s.groups, groupSocket{group, fd, 1})
	s.signal()
	return nil
}

func (s *mmsgSocket) Leave(group netip.Addr) error {
	s.recvMu.Lock()
	defer s.recvMu.Unlock()
	for i := range s.groups {
		g := &s.groups[i]
		if g.group != group {
			continue
		}
		if g.n--; g.n > 0 || s.closed.Load() {
			return nil
		}
		s.lost.leave(g.fd)
		err := unix.Close(g.fd)
		s.groups = append(s.groups[:i], s.groups[i+1:]...)
		s.signal()
		return err
	}
	return fmt.Errorf("multicast group %v is not joined", group)
}
