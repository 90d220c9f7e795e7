package speed

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"ciddk/test/linux/guest"
)

// rxeAddr are the places of rxe's ends.
var rxeAddr = [2]netip.Addr{netip.MustParseAddr("10.78.0.1"), netip.MustParseAddr("10.78.0.2")}

// rxeScript creates a pair of interfaces with an rxe device on each. Its routing rules come before the table of local
// addresses, which would deliver packets for either end locally.
const rxeScript = `set -e
ip link add v0 mtu %[1]d type veth peer name v1 mtu %[1]d
for i in 0 1; do
  ip addr add 10.78.0.$((i + 1))/24 dev v$i noprefixroute
  echo 1 >/proc/sys/net/ipv4/conf/v$i/accept_local
  ip link set v$i up
done
for f in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >$f; done
ip rule add pref 1000 lookup local
ip rule del pref 0
ip rule add pref 100 oif v0 to 10.78.0.2 lookup 101
ip rule add pref 101 oif v1 to 10.78.0.1 lookup 102
ip rule add pref 102 iif lo from 10.78.0.1 to 10.78.0.2 lookup 101
ip rule add pref 103 iif lo from 10.78.0.2 to 10.78.0.1 lookup 102
ip route add 10.78.0.2 dev v0 table 101 src 10.78.0.1
ip route add 10.78.0.1 dev v1 table 102 src 10.78.0.2
rdma link add rxev0 type rxe netdev v0
rdma link add rxev1 type rxe netdev v1
`

// RXE creates a pair of interfaces with an MTU in a guest, and an rxe device on each. Their packets cross the pair. The
// guest has the programs sh and ip and the module veth.
func RXE(ctx context.Context, vm *guest.Guest, mtu int) (*Perftest, error) {
	if _, err := run(ctx, vm, "sh", "-c", fmt.Sprintf(rxeScript, mtu)); err != nil {
		return nil, err
	}
	p := &Perftest{VM: vm}
	for i := range p.Ends {
		dev := fmt.Sprintf("rxev%d", i)
		row, err := findGID(ctx, vm, dev, rxeAddr[i])
		if err != nil {
			return nil, err
		}
		p.Ends[i] = End{Device: dev, GID: row}
	}
	return p, nil
}

// findGID waits until the GID table of a device has an address. The kernel adds it from a work queue.
func findGID(ctx context.Context, vm *guest.Guest, dev string, a netip.Addr) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	want := netip.AddrFrom16(a.As16())
	for {
		for row := range 4 {
			r, err := vm.Run(ctx, "agent", "cat", fmt.Sprintf("/sys/class/infiniband/%s/ports/1/gids/%d", dev, row))
			if err != nil {
				return 0, fmt.Errorf("waiting for the GID of %v: %w", a, err)
			}
			if got, err := netip.ParseAddr(strings.TrimSpace(r.Stdout)); err == nil && got == want {
				return row, nil
			}
		}
	}
}
