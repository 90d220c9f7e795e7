package lnd

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// NID names a node of LNet: a network in the upper 32 bits (type and number), an IPv4 address in the lower ones. A NID of this size has no
// room for IPv6.
type NID uint64

// netO2IB is the type of networks over InfiniBand and RoCE.
const netO2IB = 5

// NIDOf is the node with an address on network o2ib<number>. Errors: an address that is not IPv4.
func NIDOf(number uint16, a netip.Addr) (NID, error) {
	if a = a.Unmap(); !a.Is4() {
		return 0, fmt.Errorf("lnd: a NID holds an IPv4 address, %q is none", a)
	}
	ip := a.As4()
	return NID(netO2IB)<<48 | NID(number)<<32 | NID(binary.BigEndian.Uint32(ip[:])), nil
}

// Addr is the node's IP address.
func (n NID) Addr() netip.Addr {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], uint32(n))
	return netip.AddrFrom4(ip)
}

// String is LNet's notation, such as 10.0.0.1@o2ib or 10.0.0.1@o2ib3.
func (n NID) String() string {
	switch number := uint16(n >> 32); {
	case n>>48 != netO2IB:
		return fmt.Sprintf("%v@<%d:%d>", n.Addr(), n>>48, number)
	case number == 0:
		return n.Addr().String() + "@o2ib"
	default:
		return fmt.Sprintf("%v@o2ib%d", n.Addr(), number)
	}
}

// rank decides a race of two connection requests that cross: the node with the higher one has its way. It is the hash that the Linux
// implementation compares, in which a little-endian machine sees the bytes of an address the wrong way round, so it is not the order of the
// addresses. What counts is that both ends see the same order.
func (n NID) rank() uint32 {
	ip := n.Addr().As4()
	return uint32(n>>32) ^ binary.LittleEndian.Uint32(ip[:])
}
