package rdmacm

import (
	"fmt"
	"net"
	"net/netip"

	"ciddk/mad"
)

// Addr is the address of one end of a connection. It is a net.Addr.
type Addr struct {
	Space mad.PortSpace
	netip.AddrPort
	Service mad.ServiceID // of an ID with IDConfig.Service; then the port is 0
}

var _ net.Addr = Addr{}

// Network returns "rdma-tcp", "rdma-udp" or "rdma-ib".
func (a Addr) Network() string { return network(a.Space) }

func network(s mad.PortSpace) string {
	switch s {
	case TCP:
		return "rdma-tcp"
	case UDP:
		return "rdma-udp"
	case IB:
		return "rdma-ib"
	}
	return fmt.Sprintf("rdma-%#x", uint16(s))
}

func (a Addr) String() string {
	if a.Service != 0 {
		return fmt.Sprintf("[%v]#%016x", a.Addr(), uint64(a.Service))
	}
	if !a.Addr().IsValid() { // any address
		return fmt.Sprintf(":%d", a.Port())
	}
	return a.AddrPort.String()
}
