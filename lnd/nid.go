package lnd

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// A NID is the name of a node of an LNet: the type of its network in bits 48 to 63, the number of the network in bits
// 32 to 47, and its IPv4 address in the lower 32 bits. Its text is like 10.0.0.1@o2ib or 10.0.0.1@o2ib3.
type NID uint64

// Types of networks.
const (
	o2ib     = 5
	loopback = 9
)

// NIDOf returns the NID of a node of network o2ib with a number. Errors: addr is no IPv4 address.
func NIDOf(addr netip.Addr, network uint16) (NID, error) {
	if addr = addr.Unmap(); !addr.Is4() {
		return 0, fmt.Errorf("lnd: the address of a node is %q, want an IPv4 address", addr)
	}
	ip := addr.As4()
	return NID(o2ib<<48 | uint64(network)<<32 | uint64(binary.BigEndian.Uint32(ip[:]))), nil
}

// ParseNID returns the NID that a text such as 10.0.0.1@o2ib names. Without a network it is o2ib0.
func ParseNID(text string) (NID, error) {
	addr, network, _ := strings.Cut(text, "@")
	number, isO2IB := strings.CutPrefix(network, "o2ib")
	a, err := netip.ParseAddr(addr)
	var n uint64
	if number != "" {
		var bad error
		n, bad = strconv.ParseUint(number, 10, 16)
		isO2IB = isO2IB && bad == nil
	}
	if err != nil || network != "" && !isO2IB {
		return 0, fmt.Errorf("lnd: %q is no NID of an o2ib network: want one such as 10.0.0.1@o2ib", text)
	}
	return NIDOf(a, uint16(n))
}

// Addr returns the IPv4 address in the NID.
func (n NID) Addr() netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(n))))
}

// Network returns the number of the NID's network.
func (n NID) Network() uint16 { return uint16(n >> 32) }

// String returns the NID as Lustre's tools print it.
func (n NID) String() string {
	switch kind := n >> 48; {
	case kind == loopback:
		return fmt.Sprintf("%d@lo", uint32(n))
	case kind != o2ib:
		return fmt.Sprintf("NID %#x", uint64(n))
	case n.Network() != 0:
		return fmt.Sprintf("%v@o2ib%d", n.Addr(), n.Network())
	}
	return n.Addr().String() + "@o2ib"
}

// MarshalText implements encoding.TextMarshaler.
func (n NID) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler for NIDs of o2ib networks.
func (n *NID) UnmarshalText(text []byte) (err error) {
	*n, err = ParseNID(string(text))
	return err
}
