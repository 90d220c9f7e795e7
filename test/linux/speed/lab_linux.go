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

	"ciddk/bench"
	"ciddk/test/linux/guest"
)

// Available returns nil, or an error with the missing dependencies and the packages to install.
func Available() error {
	if err := guest.Available(); err != nil {
		return err
	}
	for _, p := range programs() {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed (apt-get install perftest)", p)
		}
	}
	return nil
}

// Lab is a guest with both pairs of interfaces.
type Lab struct {
	net *guest.Network
	vm  *guest.Guest
	mtu int
	rxe *Perftest
	dir string
}

// oursAddr are the places of the reference HCA's ends.
var oursAddr = [2]netip.Addr{netip.MustParseAddr("10.79.0.1"), netip.MustParseAddr("10.79.0.2")}

const (
	memoryMB  = 1024    // two processes with 32 MiB of buffers and their sockets, twice that for perftest's largest
	bufferMax = 4 << 20 // net.core.rmem_max and wmem_max: what the reference HCA asks for, see docs/performance.md
)

// script creates the pair of the reference HCA.
const script = `set -e
for f in rmem_max wmem_max; do echo %[2]d >/proc/sys/net/core/$f; done
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
	l = &Lab{mtu: mtu}
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
	if l.vm, err = l.net.Boot(ctx, guest.Config{MemoryMB: memoryMB, Programs: append(programs(), "sh", pair),
		Modules: []string{"veth"}}); err != nil {
		return nil, err
	}
	if l.rxe, err = RXE(ctx, l.vm, mtu); err != nil {
		return nil, err
	}
	if _, err := l.run(ctx, "sh", "-c", fmt.Sprintf(script, mtu, bufferMax)); err != nil {
		return nil, err
	}
	return l, nil
}

// run runs a command of the guest, which must succeed.
func (l *Lab) run(ctx context.Context, args ...string) (string, error) {
	return run(ctx, l.vm, args...)
}

// run runs a command of a guest, which must succeed.
func run(ctx context.Context, vm *guest.Guest, args ...string) (string, error) {
	r, err := vm.Run(ctx, args...)
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
