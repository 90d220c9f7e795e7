package ucm

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"ciddk/ci"
	"ciddk/mad"
)

var be = binary.BigEndian

// The families of addresses.
const (
	familyIPv4 = syscall.AF_INET
	familyIPv6 = syscall.AF_INET6
	familyIB   = 27
)

// The sizes of addresses.
const (
	sizeIPv4 = 16
	sizeIPv6 = 28
	sizeIB   = 48
)

// address is an address with its family: 0 for none.
type address struct {
	family uint16
	netip.AddrPort
}

// parseAddress decodes a struct sockaddr of a given size. An InfiniBand address is a GID, which is the form of IPv6
// addresses, and the lower 16 bits of its service ID are the port. Errors: EINVAL.
func parseAddress(b []byte, n int) (a address, err error) {
	if n > len(b) || n < 2 {
		return a, syscall.EINVAL
	}
	a.family = ne.Uint16(b)
	want := map[uint16]int{familyIPv4: sizeIPv4, familyIPv6: sizeIPv6, familyIB: sizeIB}[a.family]
	if want == 0 || n < want {
		return a, syscall.EINVAL
	}
	switch a.family {
	case familyIPv4:
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:])), be.Uint16(b[2:]))
	case familyIPv6:
		ip := netip.AddrFrom16([16]byte(b[8:]))
		if scope := ne.Uint32(b[24:]); scope != 0 && ip.IsLinkLocalUnicast() {
			ip = ip.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		a.AddrPort = netip.AddrPortFrom(ip, be.Uint16(b[2:]))
	case familyIB:
		var ip netip.Addr // invalid: any
		if gid := [16]byte(b[8:]); gid != [16]byte{} {
			ip = netip.AddrFrom16(gid)
		}
		id, mask := be.Uint64(b[24:]), be.Uint64(b[32:])
		a.AddrPort = netip.AddrPortFrom(ip, uint16(id&mask))
	}
	return a, nil
}

// parseIP decodes an address of the commands for IP addresses.
func parseIP(b *sockaddrIn6) (address, error) {
	a, err := parseAddress(b[:], sizeIPv6)
	if a.family == familyIB {
		err = syscall.EINVAL
	}
	return a, err
}

// putAddress encodes an address as struct sockaddr and returns its size. family is that of addresses that are not set.
func putAddress(b []byte, a netip.AddrPort, family uint16) int {
	ip := a.Addr()
	switch {
	case ip.Is4() || !ip.IsValid() && family == familyIPv4:
		ne.PutUint16(b, familyIPv4)
		be.PutUint16(b[2:], a.Port())
		if ip.IsValid() {
			v4 := ip.As4()
			copy(b[4:], v4[:])
		}
		return sizeIPv4
	case ip.IsValid() || family == familyIPv6 || family == familyIB:
		ne.PutUint16(b, familyIPv6)
		be.PutUint16(b[2:], a.Port())
		if ip.IsValid() {
			v6 := ip.As16()
			copy(b[8:], v6[:])
			ne.PutUint32(b[24:], scopeOf(ip.Zone()))
		}
		return sizeIPv6
	}
	return 0
}

// scopeOf returns the number of the interface that a zone names, or 0.
func scopeOf(zone string) uint32 {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index)
	}
	return 0
}

// putGID encodes a GID as struct sockaddr_ib and returns its size.
func putGID(b []byte, g ci.GID, pkey ci.PKey, service mad.ServiceID) uint16 {
	ne.PutUint16(b, familyIB)
	be.PutUint16(b[2:], uint16(pkey))
	copy(b[8:], g[:])
	be.PutUint64(b[24:], uint64(service))
	be.PutUint64(b[32:], ^uint64(0))
	return sizeIB
}
