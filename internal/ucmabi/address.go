package ucmabi

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"ciddk/ci"
	"ciddk/mad"
)

// The families of addresses.
const (
	FamilyIPv4 = syscall.AF_INET
	FamilyIPv6 = syscall.AF_INET6
	FamilyIB   = 27
)

// The sizes of addresses.
const (
	SizeIPv4 = 16
	SizeIPv6 = 28
	SizeIB   = 48
)

// Address is an address with its family: 0 for none.
type Address struct {
	Family uint16
	netip.AddrPort
}

// ParseAddress decodes a struct sockaddr of a given size. An InfiniBand address is a GID, which is the form of IPv6
// addresses, and the lower 16 bits of its service ID are the port. Errors: EINVAL.
func ParseAddress(b []byte, n int) (a Address, err error) {
	if n > len(b) || n < 2 {
		return a, syscall.EINVAL
	}
	a.Family = ne.Uint16(b)
	want := map[uint16]int{FamilyIPv4: SizeIPv4, FamilyIPv6: SizeIPv6, FamilyIB: SizeIB}[a.Family]
	if want == 0 || n < want {
		return a, syscall.EINVAL
	}
	switch a.Family {
	case FamilyIPv4:
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), be.Uint16(b[2:]))
	case FamilyIPv6:
		ip := netip.AddrFrom16([16]byte(b[8:]))
		if scope := ne.Uint32(b[24:]); scope != 0 && ip.IsLinkLocalUnicast() {
			ip = ip.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		a.AddrPort = netip.AddrPortFrom(ip, be.Uint16(b[2:]))
	case FamilyIB:
		var ip netip.Addr // invalid: any
		if gid := [16]byte(b[8:]); gid != [16]byte{} {
			ip = netip.AddrFrom16(gid)
		}
		id, mask := be.Uint64(b[24:]), be.Uint64(b[32:])
		a.AddrPort = netip.AddrPortFrom(ip, uint16(id&mask))
	}
	return a, nil
}

// ParseIP decodes an address of the commands for IP addresses.
func ParseIP(b *SockaddrIn6) (Address, error) {
	a, err := ParseAddress(b[:], SizeIPv6)
	if a.Family == FamilyIB {
		err = syscall.EINVAL
	}
	return a, err
}

// PutAddress encodes an address as struct sockaddr and returns its size. family is that of addresses that are not set.
func PutAddress(b []byte, a netip.AddrPort, family uint16) int {
	ip := a.Addr()
	switch {
	case ip.Is4() || !ip.IsValid() && family == FamilyIPv4:
		ne.PutUint16(b, FamilyIPv4)
		be.PutUint16(b[2:], a.Port())
		if ip.IsValid() {
			v4 := ip.As4()
			copy(b[4:], v4[:])
		}
		return SizeIPv4
	case ip.IsValid() || family == FamilyIPv6 || family == FamilyIB:
		ne.PutUint16(b, FamilyIPv6)
		be.PutUint16(b[2:], a.Port())
		if ip.IsValid() {
			v6 := ip.As16()
			copy(b[8:], v6[:])
			ne.PutUint32(b[24:], ScopeOf(ip.Zone()))
		}
		return SizeIPv6
	}
	return 0
}

// ScopeOf returns the number of the interface that a zone names, or 0.
func ScopeOf(zone string) uint32 {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index)
	}
	return 0
}

// PutGID encodes a GID as struct sockaddr_ib and returns its size.
func PutGID(b []byte, g ci.GID, pkey ci.PKey, service mad.ServiceID) uint16 {
	ne.PutUint16(b, FamilyIB)
	be.PutUint16(b[2:], uint16(pkey))
	copy(b[8:], g[:])
	be.PutUint64(b[24:], uint64(service))
	be.PutUint64(b[32:], ^uint64(0))
	return SizeIB
}
