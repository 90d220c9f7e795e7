package speed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ciddk/bench"
	"ciddk/bus"
	"ciddk/bus/bustest"
	"ciddk/bus/vfiouser"
	"ciddk/ci"
	"ciddk/hca/mlx4/model"
	"ciddk/link/direct"
	"ciddk/link/frame"
	"ciddk/rvt"
	"ciddk/test/linux/guest"
	"ciddk/test/linux/speed"
)

// programs are those of perftest, and the shell.
var programs = []string{"ib_write_bw", "ib_send_lat", "sh"}

// Available returns nil, or an error with the missing dependencies.
func Available() error {
	if err := guest.AvailableVFIOUser("mlx4"); err != nil {
		return err
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is not installed (apt-get install perftest)", p)
		}
	}
	return nil
}

// A Lab is a guest with two cards, a device for bare doorbells, and two rxe devices.
type Lab struct {
	net  *guest.Network
	vm   *guest.Guest
	dir  string
	stop context.CancelFunc

	cards   []*model.Model
	sockets []string
	served  []chan error

	ends [3]*speed.Perftest // of the InfiniBand card, the Ethernet card, and rxe
	bare string             // address of the device for doorbells
}

const (
	memoryMB = 1024
	mtu      = 1500 // of the interfaces of rxe
	// The Ethernet card's interface in the guest, and its address.
	netdev  = "eth1"
	address = "10.88.0.1"
)

// New boots a guest. The caller closes the Lab.
func New(ctx context.Context) (l *Lab, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	l = new(Lab)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if l.dir, err = os.MkdirTemp("", "ciddk-speed-"); err != nil {
		return nil, err
	}
	probe, err := l.build(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.serveAll(ctx); err != nil {
		return nil, err
	}
	if l.net, err = guest.NewNetwork(ctx, guest.NetworkConfig{}); err != nil {
		return nil, err
	}
	if l.vm, err = l.net.Boot(ctx, guest.Config{VFIOUser: l.sockets, MemoryMB: memoryMB, Providers: []string{"mlx4"},
		Modules: []string{"veth", "ib_uverbs"}, Loadable: []string{"mlx4_core", "mlx4_ib", "mlx4_en"},
		Programs: append([]string{probe}, programs...)}); err != nil {
		return nil, err
	}
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// build compiles the program of the guest.
func (l *Lab) build(ctx context.Context) (string, error) {
	probe := filepath.Join(l.dir, "probe")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", probe, "ciddk/test/mlx4/probe")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=-buildvcs=false")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building test/mlx4/probe: %w: %s", err, out)
	}
	return probe, nil
}

// serveAll serves the cards and the device for doorbells.
func (l *Lab) serveAll(ctx context.Context) error {
	infiniBand, err := direct.New(direct.NewLink(), direct.Config{})
	if err != nil {
		return err
	}
	if err := l.addCard(infiniBand); err != nil {
		return err
	}
	ethernet, err := frame.New(frame.Config{Carrier: frame.NewHub().Join(), MAC: [6]byte{2, 2, 0xc9, 0, 0, 1},
		MTU: ci.MTU1024})
	if err != nil {
		return err
	}
	if err := l.addCard(ethernet); err != nil {
		return err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	devices := []bus.Device{l.cards[0], l.cards[1], bustest.New()}
	for i, d := range devices {
		path := filepath.Join(l.dir, fmt.Sprint("dev", i))
		s, err := vfiouser.Listen(path)
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			done <- vfiouser.Serve(life, s, d, vfiouser.Config{Logger: slog.New(slog.DiscardHandler)})
		}()
		l.sockets, l.served = append(l.sockets, path), append(l.served, done)
	}
	return nil
}

func (l *Lab) addCard(link rvt.Port) error {
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: link}}, Pro: true, NoBlueFlame: true})
	if err == nil {
		l.cards = append(l.cards, m)
	}
	return err
}

// prepare loads the drivers and finds the devices.
func (l *Lab) prepare(ctx context.Context) error {
	for _, m := range []string{"mlx4_core", "mlx4_en", "mlx4_ib"} {
		if err := l.vm.Load(ctx, m); err != nil {
			return err
		}
	}
	for _, args := range []string{"addr add " + address + "/24 dev " + netdev, "link set " + netdev + " up"} {
		if _, err := l.run(ctx, append([]string{"ip"}, strings.Fields(args)...)...); err != nil {
			return err
		}
	}
	for i, layer := range []string{"InfiniBand", "Ethernet"} {
		dev, err := l.await(ctx, layer)
		if err != nil {
			return err
		}
		e := speed.End{Device: dev, GID: speed.NoGID}
		if layer == "Ethernet" {
			if e.GID, err = l.gid(ctx, dev); err != nil {
				return err
			}
		}
		l.ends[i] = &speed.Perftest{VM: l.vm, Ends: [2]speed.End{e, e}}
	}
	out, err := l.run(ctx, "probe", "find", "1d1d:0042")
	if err != nil {
		return err
	}
	l.bare = strings.TrimSpace(out)
	l.ends[2], err = speed.RXE(ctx, l.vm, mtu)
	return err
}

// activation is the longest wait for an active port.
const activation = 2 * time.Minute

// await waits until the card with a link layer is active, and returns its name.
func (l *Lab) await(ctx context.Context, layer string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, activation)
	defer cancel()
	for {
		for _, dev := range []string{"mlx4_0", "mlx4_1"} {
			port := "/sys/class/infiniband/" + dev + "/ports/1/"
			r, err := l.vm.Run(ctx, "agent", "cat", port+"link_layer", port+"state")
			if err != nil {
				return "", fmt.Errorf("waiting for the card with %s: %w", layer, err)
			}
			if strings.HasPrefix(r.Stdout, layer) && strings.Contains(r.Stdout, "ACTIVE") {
				return dev, nil
			}
		}
	}
}

// gid waits for the GID of the Ethernet card's address with RoCE v2, and returns its index.
func (l *Lab) gid(ctx context.Context, dev string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, activation)
	defer cancel()
	for {
		for i := range 16 {
			port := "/sys/class/infiniband/" + dev + "/ports/1/"
			r, err := l.vm.Run(ctx, "agent", "cat", fmt.Sprint(port, "gids/", i),
				fmt.Sprint(port, "gid_attrs/types/", i))
			if err != nil {
				return 0, fmt.Errorf("waiting for the GID of %s: %w", address, err)
			}
			if strings.HasPrefix(r.Stdout, gidText) && strings.Contains(r.Stdout, "RoCE v2") {
				return i, nil
			}
		}
	}
}

// gidText is the GID of address as sysfs shows it.
const gidText = "0000:0000:0000:0000:0000:ffff:0a58:0001"

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
	return fmt.Sprintf("Linux %s in QEMU (TCG, %s), 2 processors of %s; MTU of rxe's interfaces %d", l.vm.Kernel(),
		"Nehalem", bench.Machine(), mtu)
}

// Close ends the guest and the devices. It is idempotent.
func (l *Lab) Close() error {
	var errs []error
	if l.net != nil {
		errs = append(errs, l.net.Close())
	}
	if l.stop != nil {
		l.stop()
	}
	for _, done := range l.served {
		errs = append(errs, <-done)
	}
	l.served = nil
	for _, m := range l.cards {
		errs = append(errs, m.Close())
	}
	if l.dir != "" {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}
