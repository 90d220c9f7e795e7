package rdmatest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

// Config describes a network. The zero value is a network without faults, whose random numbers come from seed 0.
type Config struct {
	// Seed determines everything that is random: keys, QP numbers, PSNs, transaction and communication IDs, ephemeral
	// ports and the choices of Faults. 0 is a seed like any other.
	Seed uint64
	// Latency is the time that a packet takes from one host to another; 0 is 10 us. Each host adds up to 1 us of its
	// own: see the package comment.
	Latency time.Duration
	// Faults holds the probabilities with which the network drops, duplicates, reorders, delays and corrupts packets.
	Faults impair.Model
	// IPv6 sets the addresses of the hosts to fd00::1, fd00::2 and so on; otherwise they are 10.0.0.1, 10.0.0.2 and so
	// on.
	IPv6 bool
	// TraceMemory is the number of bytes that the packets of the trace may occupy; 0 is 16 MiB. When it is exceeded,
	// Trace no longer returns the oldest packets. TraceHash covers all packets.
	TraceMemory int
	// Configure, if not nil, changes the configuration of each host before it is opened.
	Configure func(host string, c *HostConfig)
}

// A HostConfig describes a host. New fills it in, and Config.Configure may change it. Runs are identical only if the
// clocks and sources of randomness in it stay.
type HostConfig struct {
	// HCA describes the host's adapter. Its Ports are set later.
	HCA reference.Config
	// Manager describes the host's access layer and connection manager.
	Manager rdmacm.OpenConfig
}

const (
	defaultLatency     = 10 * time.Microsecond
	defaultTraceMemory = 16 << 20
	maxHosts           = 254
	maxDelay           = 1000 // ns, of the hosts' lines
)

// A Network is a network in memory with hosts on it, for one test. All methods may be called concurrently by goroutines
// of the test's bubble. Methods that fail call Fatalf of the test, so they belong on the goroutine of the test.
type Network struct {
	t      testing.TB
	cfg    Config
	clock  clock.Clock
	net    *sim.Network
	trace  trace
	names  []string        // of the hosts, by number
	delays []time.Duration // of the hosts' lines

	mu          sync.Mutex
	hosts       []*Host // the last one of each name, by number
	partitioned map[[2]netip.Addr]bool
}

// New creates a network with a running host for each name. At the end of the test all hosts are closed; an error of
// that is an error of the test. If the test has failed, its log gets the seed, the hash of the trace and the last
// packets.
//
// New must be called in a testing/synctest bubble, with the t of the bubble. It calls t.Fatalf if it is not, if a name
// is empty or given twice, and if a field of cfg is out of range.
func New(t testing.TB, cfg Config, hosts ...string) *Network {
	t.Helper()
	requireBubble(t)
	switch {
	case len(hosts) == 0:
		t.Fatalf(`rdmatest.New: no host given: give at least one name, such as "server"`)
	case len(hosts) > maxHosts:
		t.Fatalf("rdmatest.New: %d hosts given: at most %d", len(hosts), maxHosts)
	case cfg.Latency < 0:
		t.Fatalf("rdmatest.New: Config.Latency is %v: give a positive duration, or 0 for %v", cfg.Latency,
			defaultLatency)
	case cfg.TraceMemory < 0:
		t.Fatalf("rdmatest.New: Config.TraceMemory is %d: give bytes, or 0 for %d", cfg.TraceMemory, defaultTraceMemory)
	}
	for i, name := range hosts {
		if name == "" || slices.Contains(hosts[:i], name) {
			t.Fatalf("rdmatest.New: the name %q of host %d is empty or given twice", name, i)
		}
	}
	if cfg.Latency == 0 {
		cfg.Latency = defaultLatency
	}
	if cfg.TraceMemory == 0 {
		cfg.TraceMemory = defaultTraceMemory
	}
	n := &Network{t: t, cfg: cfg, clock: clock.Real(), names: slices.Clone(hosts)}
	n.partitioned = map[[2]netip.Addr]bool{}
	n.trace.init(cfg.TraceMemory)
	n.net = sim.NewNetwork(sim.NetworkConfig{Clock: n.clock, Latency: cfg.Latency, Impairment: cfg.Faults,
		Seed: cfg.Seed, Filter: n.decide, Watch: n.watch})
	t.Cleanup(n.close)
	for i, name := range hosts {
		n.hosts = append(n.hosts, &Host{Name: name, Addr: n.addr(i), net: n, number: i})
	}
	for _, d := range rand.New(rand.NewPCG(cfg.Seed, 0)).Perm(maxDelay)[:len(hosts)] {
		n.delays = append(n.delays, time.Duration(1+d))
	}
	for _, h := range n.hosts {
		if err := h.open(); err != nil {
			t.Fatalf("rdmatest.New: opening the host %q: %v", h.Name, err)
		}
	}
	return n
}

// addr returns the address of host i.
func (n *Network) addr(i int) netip.Addr {
	if n.cfg.IPv6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
}

// Host returns the host with a name: after Restart, the new one. It calls t.Fatalf if there is none.
func (n *Network) Host(name string) *Host {
	n.t.Helper()
	return n.find("Network.Host", name)
}

// find returns the last host with a name. It calls t.Fatalf if there is none.
func (n *Network) find(verb, name string) *Host {
	n.t.Helper()
	if i := slices.Index(n.names, name); i >= 0 {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.hosts[i]
	}
	n.t.Fatalf("rdmatest: %s: there is no host %q: New was given %s", verb, name, strings.Join(n.names, ", "))
	return nil
}

// nameOf returns the name of the host with an address, or the address.
func (n *Network) nameOf(a netip.Addr) string {
	for i, name := range n.names {
		if n.addr(i) == a {
			return name
		}
	}
	return a.String()
}

// close closes all hosts at the end of the test.
func (n *Network) close() {
	n.mu.Lock()
	hosts := slices.Clone(n.hosts)
	n.mu.Unlock()
	for _, h := range slices.Backward(hosts) {
		if err := h.close(); err != nil {
			n.t.Errorf("rdmatest: closing the host %q: %v", h.Name, err)
		}
	}
	if n.t.Failed() {
		n.t.Logf("rdmatest: %s", n.summary())
	}
}

// summary describes the run for the log of a test that has failed.
func (n *Network) summary() string {
	const last = 20
	list := n.Trace()
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, trace %s", n.cfg.Seed, n.TraceHash())
	if len(list) > last {
		list = list[len(list)-last:]
	}
	for _, p := range list {
		b.WriteString("\n    ")
		b.WriteString(p.String())
	}
	return b.String()
}
