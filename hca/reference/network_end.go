package reference

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"ciddk/wire"
)

// NetworkEnd is an address of a Network at which no HCA sits: whoever holds it speaks to the ports in whole IP packets, from the IP header to
// the ICRC. It is for tests and certifiers. Methods may be called concurrently.
type NetworkEnd struct {
	endQueue
	net  *Network
	sock *virtualSocket
	off  atomic.Bool
}

// End makes an end at an address that no port of the network has. Errors: another member has the address, or it is no unicast address.
func (n *Network) End(addr netip.Addr) (*NetworkEnd, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != "" {
		return nil, fmt.Errorf("end of the network: %v: give a unicast IPv4 or IPv6 address without a zone", addr)
	}
	e := &NetworkEnd{endQueue: newEndQueue(), net: n}
	e.sock = &virtualSocket{net: n, port: &udpPort{addr: addr, udp: wire.RoCEv2Port, gid: gidOf(addr)}, sink: e.put}
	if err := n.join(e.sock, addr); err != nil {
		return nil, fmt.Errorf("end of the network: %w", err)
	}
	return e, nil
}

// Send puts an IP packet on the network as it is, right or wrong, to the destination that its header names. b is the caller's again when it
// returns. Errors: what has no IP header; the end is closed.
func (e *NetworkEnd) Send(b []byte) error {
	if e.off.Load() {
		return errEndClosed
	}
	var dst netip.Addr
	switch {
	case len(b) >= wire.IPv4Len && b[0]>>4 == 4:
		dst = netip.AddrFrom4([4]byte(b[16:]))
	case len(b) >= wire.IPv6Len && b[0]>>4 == 6:
		dst = netip.AddrFrom16([16]byte(b[24:]))
	default:
		return errors.New("end of the network: no IP header")
	}
	e.net.send(e.sock, dst, append([]byte(nil), b...))
	return nil
}

// Close takes the end off the network. Idempotent.
func (e *NetworkEnd) Close() error {
	if e.shut() {
		e.off.Store(true)
		e.net.leave(e.sock, e.sock.port.addr)
	}
	return nil
}
