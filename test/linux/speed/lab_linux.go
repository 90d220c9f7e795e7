package speed

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ciddk/bench"
	"ciddk/test/linux/guest"
)

// Available returns nil, or an error with the missing dependencies and the packages to install.
func Available() error {
	if err := guest.Available(); err != nil {
		return err
	}
	for _, p := range perftest() {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed (apt-get install perftest)", p)
		}
	}
	return nil
}

// Lab is a guest with both pairs of interfaces.
type Lab struct {
	net  *guest.Network
	vm   *guest.Guest
	mtu  int
	gid  [2]int // of the IPv4 addresses of the rxe devices
	port uint16 // of the last perftest server
	dir  string
}

// Places of the two ends. The namespaces have names inside the guest.
var (
	rxeAddr  = [2]netip.Addr{netip.MustParseAddr("10.78.0.1"), netip.MustParseAddr("10.78.0.2")}
	oursAddr = [2]netip.Addr{netip.MustParseAddr("10.79.0.1"), netip.MustParseAddr("10.79.0.2")}
)

const (
	memoryMB  = 1024     // two processes with 32 MiB of buffers and their sockets, twice that for perftest's largest
	bufferMax = 4 << 20  // net.core.rmem_max and wmem_max: what the reference HCA asks for, see docs/performance.md
	device    = "rxev%d" // of each end
)

// script creates both pairs. Its routing rules come before the table of local addresses, which would deliver packets
// for either end locally.
const script = `set -e
for f in rmem_max wmem_max; do echo %[2]d >/proc/sys/net/core/$f; done
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
ip netns add a
ip netns add b
ip link add a0 mtu %[1]d netns a type veth peer name b0 mtu %[1]d netns b
ip -n a addr add 10.79.0.1/24 dev a0
ip -n b addr add 10.79.0.2/24 dev b0
for n in a b; do ip -n $n link set lo up; ip -n $n link set ${n}0 up; done
`

// New boots a guest with interfaces of an MTU. The caller closes the Lab.
func New(ctx context.Context, mtu int) (l *Lab, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	l = &Lab{mtu: mtu, port: 18515}
	defer func() {
		if err != nil {
			_ = l.Close() // the first error says more
		}
	}()
	if l.dir, err = os.MkdirTemp("", "ciddk-speed-"); err != nil {
		return nil, err
	}
	pair := filepath.Join(l.dir, "pair")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", pair, "ciddk/bench/cmd/pair")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-buildvcs=false")
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building bench/cmd/pair: %w: %s", err, out)
	}
	if l.net, err = guest.NewNetwork(ctx, guest.NetworkConfig{}); err != nil {
		return nil, err
	}
	if l.vm, err = l.net.Boot(ctx, guest.Config{MemoryMB: memoryMB, Programs: append(perftest(), "sh", pair),
		Modules: []string{"veth"}}); err != nil {
		return nil, err
	}
	if _, err := l.run(ctx, "sh", "-c", fmt.Sprintf(script, mtu, bufferMax)); err != nil {
		return nil, err
	}
	for i := range l.gid {
		if l.gid[i], err = l.findGID(ctx, i); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// findGID waits until the GID table of a device has its address. The kernel adds it from a work queue.
func (l *Lab) findGID(ctx context.Context, i int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	want := netip.AddrFrom16(rxeAddr[i].As16())
	for {
		for row := range 4 {
			r, err := l.vm.Run(ctx, "agent", "cat",
				fmt.Sprintf("/sys/class/infiniband/"+device+"/ports/1/gids/%d", i, row))
			if err != nil {
				return 0, fmt.Errorf("waiting for the GID of %v: %w", rxeAddr[i], err)
			}
			if a, err := netip.ParseAddr(strings.TrimSpace(r.Stdout)); err == nil && a == want {
				return row, nil
			}
		}
	}
}

// run runs a command of the guest, which must succeed.
func (l *Lab) run(ctx context.Context, args ...string) (string, error) {
	r, err := l.vm.Run(ctx, args...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout, err
}

// Machine returns a short description of the guest.
func (l *Lab) Machine() string {
	return fmt.Sprintf("Linux %s in QEMU (TCG, %s), 2 processors of %s; MTU of the interfaces %d", l.vm.Kernel(),
		"Nehalem", bench.Machine(), l.mtu)
}

// Close ends the guest. Idempotent.
func (l *Lab) Close() error {
	var err error
	if l.net != nil {
		err = l.net.Close()
	}
	if e := os.RemoveAll(l.dir); err == nil && l.dir != "" {
		err = e
	}
	return err
}

func itoa(n int) string { return strconv.Itoa(n) }
