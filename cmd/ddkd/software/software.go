// Package software makes the kit's software HCA a driver of ddkd. Other daemons list it beside their own driver if
// their users want a software adapter, too.
package software

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"ciddk/ci"
	"ciddk/cmd/ddkd/cli"
	"ciddk/fabric/join"
	"ciddk/hca/reference"
	"ciddk/hca/reference/arena"
	"ciddk/internal/kproxy/uverbs"
	"ciddk/internal/memlimit"
	"ciddk/internal/rings"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// Driver returns the driver "software". Its adapters have one port for each address. Those with link=network share one
// simulated network.
func Driver() cli.Driver {
	network := sync.OnceValue(func() *sim.Network { return sim.NewNetwork(sim.NetworkConfig{}) })
	return cli.Driver{
		Name:        "software",
		Description: "the kit's software HCA",
		Keys: map[string]string{
			"link": "udp (the default): RoCEv2 over UDP; network: a simulated network within the daemon; " +
				"fabric: a port of an InfiniBand fabric, which ddk-fabric serves",
			"address":   "an IP address of this machine, or of the simulated network; A+B has two ports, and so on",
			"interface": "a network interface, for all its addresses",
			"port":      "UDP port; default: that of RoCEv2, 4791",
			"gids": "GID table: as Linux's Soft-RoCE has it (rxe: a link-local GID, then that of the address), or as " +
				"ConnectX adapters have it (mlx5: each of them for RoCE v1 and for v2); default: the address",
			"loopback": "direct: packets between adapters of this daemon take no socket, and tcpdump does not see " +
				"them; wire: all packets pass the system; default: direct",
			"fabric": "name of the fabric, or path of its socket; default: sim",
			"node":   "node of the fabric, as NODE or NODE:PORT",
			"impair": "share of the packets that the port drops, and as many that it duplicates, reorders, " +
				"delays and corrupts each, to test programs on a bad link: 1%; default: 0",
			"cnp-interval": "least time between two congestion notifications (CNP) that a QP sends because the " +
				"network marks packets of its peer, or off; default: 4us",
			"user-memory": "bytes of the memory that the adapter shares with a process that has its user library, " +
				"for the queues of the process: a multiple of 4096; only what queues use is occupied; " +
				"default: 1073741824, or a 128th of what RLIMIT_AS leaves",
			"user-idle": "time without work of such processes after which the adapter sleeps, and their next post is " +
				"a system call; until then, it uses a processor; default: 50us",
			"queue-memory": "limit of the bytes of all queues of the adapter; default: 4294967296, " +
				"or a quarter of the memory that the daemon may use",
		},
		Example: "address=192.0.2.1",
		Verbs: []uverbs.Provider{{Library: rings.LibraryName, Name: "rxe_ddk", ABI: 2, Driver: 14,
			Command: rings.VerbsCommand, BellOffset: rings.VerbsIndex}},
		Check: func(s cli.Settings) error {
			_, err := parse(s)
			return err
		},
		Open: func(ctx context.Context, s cli.Settings, _ *slog.Logger) (ci.HCA, error) {
			a, err := parse(s)
			if err != nil {
				return nil, err
			}
			return a.open(ctx, network)
		},
	}
}

// adapter describes an adapter.
type adapter struct {
	link      string
	addrs     []netip.Addr // of the ports; an invalid one is that of the interface or of the fabric
	ifaceName string
	port      uint16
	fabric    string
	node      string
	nodePort  int
	impair    float64
	wire      bool // loopback=wire

	linkLocalGIDs, roceV1GIDs bool // gids

	userMemory, queueMemory int64
	userIdle, cnpInterval   time.Duration
}

func parse(s cli.Settings) (a adapter, err error) {
	a = adapter{link: s["link"], ifaceName: s["interface"], addrs: make([]netip.Addr, 1)}
	if a.impair, err = parseShare(s["impair"]); err != nil {
		return a, err
	}
	if err := a.parseUser(s); err != nil {
		return a, err
	}
	if s["cnp-interval"] == "off" {
		a.cnpInterval = -1
	} else if a.cnpInterval, err = parseTime(s, "cnp-interval", maxInterval); err != nil {
		return a, fmt.Errorf("%w, or off", err)
	}
	a.link = cmp.Or(a.link, "udp")
	switch v := s["loopback"]; {
	case v != "" && a.link != "udp":
		return a, fmt.Errorf("loopback is for link=udp, not for link=%s", a.link)
	case v != "" && v != "direct" && v != "wire":
		return a, fmt.Errorf("loopback %q: want direct or wire", v)
	default:
		a.wire = v == "wire"
	}
	switch v := s["gids"]; {
	case v != "" && a.link == "fabric":
		return a, errors.New("gids is not for link=fabric")
	case v != "" && v != "rxe" && v != "mlx5":
		return a, fmt.Errorf("gids %q: want rxe or mlx5", v)
	default:
		a.linkLocalGIDs, a.roceV1GIDs = v != "", v == "mlx5"
	}
	address, port := s["address"], s["port"]
	if a.link == "fabric" {
		return a, a.parseFabric(s)
	}
	switch {
	case s["fabric"] != "" || s["node"] != "":
		return a, fmt.Errorf("fabric and node are for link=fabric, not for link=%s", a.link)
	case a.link != "udp" && a.link != "network":
		return a,
			fmt.Errorf("no link %q; there are udp, network (link/sim, a simulated network within the daemon) and "+
				"fabric (a port of a fabric of ddk-fabric)", a.link)
	case address == "" && a.ifaceName == "":
		return a, errors.New("address or interface is required")
	case address != "" && a.ifaceName != "":
		return a, errors.New("address and interface exclude each other")
	case a.link == "network" && (address == "" || port != ""):
		return a, errors.New("the link network has an address, and neither an interface nor a port")
	}
	if address != "" {
		a.addrs = nil
		for text := range strings.SplitSeq(address, "+") {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				return a, fmt.Errorf("address: %w", err)
			}
			a.addrs = append(a.addrs, addr)
		}
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return a, fmt.Errorf("port %q: want 1 to 65535", port)
		}
		a.port = uint16(n)
	}
	return a, nil
}

// parseUser parses the settings of queues and of client processes with a user library.
func (a *adapter) parseUser(s cli.Settings) (err error) {
	if a.userMemory, err = parseBytes(s, "user-memory", arena.PageSize, 2*arena.PageSize); err != nil {
		return err
	}
	if a.queueMemory, err = parseBytes(s, "queue-memory", 1, 1); err != nil {
		return err
	}
	a.userMemory = cmp.Or(a.userMemory, memlimit.UserMemory())
	a.queueMemory = cmp.Or(a.queueMemory, memlimit.Queues())
	a.userIdle, err = parseTime(s, "user-idle", maxUserIdle)
	return err
}

// parseTime parses a setting that is a time, 0 if it is not set.
func parseTime(s cli.Settings, key string, most time.Duration) (time.Duration, error) {
	text := s[key]
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > most {
		return 0, fmt.Errorf("%s %q: want a time such as 200us, at most %v", key, text, most)
	}
	return d, nil
}

// maxInterval is the longest time between congestion notifications.
const maxInterval = time.Second

// maxUserIdle is the longest time for which an adapter looks for work that does not come.
const maxUserIdle = time.Minute

// parseBytes parses a number of bytes, a multiple of unit and at least least; 0 without the setting.
func parseBytes(s cli.Settings, key string, unit, least int64) (int64, error) {
	text := s[key]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n%unit != 0 || n > maxBytes {
		return 0, fmt.Errorf("%s %q: want a number of bytes, a multiple of %d from %d to %d", key, text, unit, least,
			int64(maxBytes))
	}
	return n, nil
}

// maxBytes is the most bytes of a setting: more than a machine has.
const maxBytes = 1 << 46

// maxShare is the largest share of packets with one kind of impairment. There are five kinds, and half of the packets
// pass.
const maxShare = 0.1

// parseShare parses the setting impair.
func parseShare(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, isPercent := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(number, 64)
	if isPercent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= maxShare) { // also false for a NaN
		return 0, fmt.Errorf("impair %q: want a share from 0 to %g%%, such as 1%%", text, 100*maxShare)
	}
	return f, nil
}

// parseFabric parses the settings of link=fabric.
func (a *adapter) parseFabric(s cli.Settings) error {
	for _, k := range []string{"address", "interface", "port"} {
		if s[k] != "" {
			return fmt.Errorf("%s is not for link=fabric, which has node and fabric", k)
		}
	}
	a.fabric, a.node = s["fabric"], s["node"]
	if a.fabric == "" {
		a.fabric = "sim"
	}
	if a.node == "" {
		return errors.New("node is required: a node of the fabric, as h1 or h1:2")
	}
	if node, num, ok := strings.Cut(a.node, ":"); ok {
		n, err := strconv.ParseUint(num, 10, 8)
		if err != nil {
			return fmt.Errorf("node %q: want a port of 1 to 255 after the colon", a.node)
		}
		a.node, a.nodePort = node, int(n)
	}
	return nil
}

func (a *adapter) open(ctx context.Context, network func() *sim.Network) (ci.HCA, error) {
	var ports []rvt.Port
	for _, addr := range a.addrs {
		p, err := a.openPort(ctx, addr, network)
		if err != nil {
			for _, p := range ports {
				err = errors.Join(err, p.Close())
			}
			return nil, err
		}
		ports = append(ports, p)
	}
	h, err := reference.New(reference.Config{Ports: ports, UserMemory: a.userMemory, UserIdle: a.userIdle,
		QueueMemory: a.queueMemory, CNPInterval: a.cnpInterval})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// openPort opens the port with an address, or the one of the fabric or of the interface.
func (a *adapter) openPort(ctx context.Context, addr netip.Addr, network func() *sim.Network) (port rvt.Port,
	err error) {
	switch a.link {
	case "network":
		port, err = sim.New(network(), sim.Config{Addr: addr, LinkLocalGIDs: a.linkLocalGIDs, RoCEv1GIDs: a.roceV1GIDs})
	case "fabric":
		port, err = join.DialName(ctx, a.fabric, a.node, a.nodePort)
	default:
		port, err = udp.New(udp.Config{Addr: addr, Interface: a.ifaceName, Port: a.port, Near: !a.wire,
			LinkLocalGIDs: a.linkLocalGIDs, RoCEv1GIDs: a.roceV1GIDs})
	}
	if err != nil || a.impair == 0 {
		return port, err
	}
	f := a.impair
	m := impair.Model{Drop: f, Duplicate: f, Reorder: f, Delay: f, Corrupt: f}
	bad, err := impair.New(port, impair.Config{Seed: rand.Uint64(), Out: m, In: m})
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	return bad, nil
}
