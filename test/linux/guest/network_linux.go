package guest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
)

// Host is the index of the host's side in Network.Addr; guests count from 1 in the order in which they were booted.
const Host = 0

const bridge = "br0"

var (
	prefix4 = netip.MustParsePrefix("10.77.0.0/24")
	prefix6 = netip.MustParsePrefix("fd77::/64")
)

// NetworkConfig describes a Network. The zero value is valid.
type NetworkConfig struct {
	// MTU of all interfaces in bytes; 0 is 1500. rxe takes the largest IB MTU not above MTU-80: 1500 gives 1024, 4176
	// and more 4096.
	MTU int
}

// Network is an Ethernet segment with the host on it. Its methods may be called concurrently.
type Network struct {
	ns  *namespace
	mtu int

	mu     sync.Mutex
	last   int // index of the last guest
	guests []*Guest
	closed bool
}

// NewNetwork creates a network. The caller closes it. It fails if Available fails, or when the context ends.
func NewNetwork(ctx context.Context, c NetworkConfig) (*Network, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	n := &Network{ns: ns, mtu: c.MTU}
	if err := n.build(ctx); err != nil {
		ns.close()
		return nil, err
	}
	return n, nil
}

func (n *Network) build(ctx context.Context) error {
	// Addresses must be usable at once, and the host must not send packets by itself.
	for _, f := range []string{"accept_dad", "router_solicitations"} {
		err := n.ns.do(func() error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/default/"+f, []byte("0"), 0)
		})
		if err != nil {
			return err
		}
	}
	for _, c := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", bridge, "type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0"},
		{"ip", "addr", "add", prefix(prefix4, Host).String(), "dev", bridge},
		{"ip", "addr", "add", prefix(prefix6, Host).String(), "dev", bridge, "nodad"},
		{"ip", "link", "set", bridge, "mtu", strconv.Itoa(n.mtu), "up"},
	} {
		if err := n.ns.run(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

// Addr4 returns the IPv4 address of a member: Host, or the Index of a Guest.
func (n *Network) Addr4(index int) netip.Addr { return prefix(prefix4, index).Addr() }

// Addr6 returns the IPv6 address of a member.
func (n *Network) Addr6(index int) netip.Addr { return prefix(prefix6, index).Addr() }

// prefix returns address index+1 of a network.
func prefix(p netip.Prefix, index int) netip.Prefix {
	b := p.Addr().AsSlice()
	b[len(b)-1] = byte(index + 1)
	a, _ := netip.AddrFromSlice(b) // 4 or 16 bytes
	return netip.PrefixFrom(a, p.Bits())
}

// Start runs a program of this machine on the network. It is killed when ctx ends or the network is closed.
func (n *Network) Start(ctx context.Context, args ...string) (*Process, error) {
	return n.ns.start(ctx, args)
}

// WaitListen waits until a program of the host listens on the TCP port.
func (n *Network) WaitListen(ctx context.Context, port uint16) error {
	return waitListen(ctx, port, func() (string, error) {
		var all []byte
		for _, f := range tcpTables {
			// By thread: /proc/net is that of the process's first thread, which is in another namespace.
			b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/net/%s", n.ns.tid, f))
			if err != nil {
				return "", err
			}
			all = append(all, b...)
		}
		return string(all), nil
	})
}

// Close ends the guests and all programs of the host's side. It may be called more than once.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closed = true
	guests := n.guests
	n.guests = nil
	n.mu.Unlock()
	var errs []error
	for _, g := range guests {
		errs = append(errs, g.Close())
	}
	n.ns.close()
	return errors.Join(errs...)
}
