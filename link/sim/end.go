package sim

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"ciddk/link/internal/inbox"
	"ciddk/link/internal/rocev2"
	"ciddk/wire"
)

// ErrClosed is the error of an End's methods after Close.
var ErrClosed = inbox.ErrClosed

// An End is an address of a Network that has no HCA. Its owner sends and receives whole IP packets, from the IP header
// to the ICRC. Ends are for tests and certifiers. Methods may be called concurrently.
type End struct {
	inbox *inbox.Queue
	net   *Network
	sock  *socket
	off   atomic.Bool
}

// End makes an end at an address that no port of the network has. Errors: another member has the address, or it is no
// unicast address.
func (n *Network) End(addr netip.Addr) (*End, error) {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != "" {
		return nil, fmt.Errorf("sim: end at %v: give a unicast IPv4 or IPv6 address without a zone", addr)
	}
	e := &End{inbox: inbox.New(), net: n}
	e.sock = &socket{net: n, port: &rocev2.Port{Addr: addr, UDP: wire.RoCEv2Port, GID: rocev2.GIDOf(addr)},
		sink: e.inbox.Put}
	if err := n.join(e.sock, addr); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	return e, nil
}

// Recv returns the next packet in order of arrival. The slice is the caller's. Errors: the context's; ErrClosed.
func (e *End) Recv(ctx context.Context) ([]byte, error) { return e.inbox.Recv(ctx) }

// Send puts an IP packet on the network as it is, valid or not, to the destination in its header. b is the caller's
// again when it returns. Errors: no IP header; ErrClosed.
func (e *End) Send(b []byte) error {
	if e.off.Load() {
		return ErrClosed
	}
	var dst netip.Addr
	switch {
	case len(b) >= wire.IPv4Len && b[0]>>4 == 4:
		dst = netip.AddrFrom4([4]byte(b[16:]))
	case len(b) >= wire.IPv6Len && b[0]>>4 == 6:
		dst = netip.AddrFrom16([16]byte(b[24:]))
	default:
		return errors.New("sim: the packet has no IP header")
	}
	e.net.send(e.sock, dst, packet{data: b}.clone())
	return nil
}

// Close takes the end off the network. It is idempotent.
func (e *End) Close() error {
	if e.inbox.Close() {
		e.off.Store(true)
		e.net.leave(e.sock, e.sock.port.Addr)
	}
	return nil
}
