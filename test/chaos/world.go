package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"

	"ciddk/ci/ciwrap/faults"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/wire"
)

// world has the hosts and actors of a round.
type world struct {
	cfg    Config
	seed   uint64
	ctx    context.Context // ends with the round
	v      *verdict
	tally  *tally
	dog    *watchdog
	clock  clock.Clock
	net    *sim.Network
	sniff  *sniffer
	truth  *truth
	actors sync.WaitGroup

	mu    sync.Mutex
	hosts []*host
	hcas  []*adapter
	conns map[uint64]*conn // by seed, until the passive end has taken it
}

// adapter is an HCA of the world. Several may have the same address, one after the other.
type adapter struct {
	name string
	*reference.HCA
}

// Addresses of the hosts on the network.
var (
	steadyA  = netip.MustParseAddr("10.66.0.1")
	steadyB  = netip.MustParseAddr("10.66.0.2")
	volatile = netip.MustParseAddr("10.66.0.3")
	faulty   = netip.MustParseAddr("10.66.0.4")
	raw1     = netip.MustParseAddr("10.66.0.6")
	raw2     = netip.MustParseAddr("10.66.0.7")
	rung     = netip.MustParseAddr("10.66.0.8")
	attacker = netip.MustParseAddr("10.66.0.66")
	loop1    = netip.MustParseAddr("127.0.0.1")
	loop2    = netip.MustParseAddr("127.0.0.2")
)

// udpPort is the UDP port of the HCAs on real sockets. It differs from the standard port, so that other tests do not
// interfere.
const udpPort = 24917

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func newWorld(ctx context.Context, cfg Config, seed uint64, v *verdict, t *tally, dog *watchdog) *world {
	w := &world{cfg: cfg, seed: seed, ctx: ctx, v: v, tally: t, dog: dog, clock: clock.Real(),
		conns: map[uint64]*conn{}}
	w.sniff = &sniffer{}
	w.truth = newTruth(v)
	w.net = sim.NewNetwork(sim.NetworkConfig{Seed: seed, Impairment: impair.Model{Drop: .003,
		Duplicate: .005,
		Reorder:   .005, Delay: .003, Corrupt: .003}, Watch: w.watch, Filter: choose})
	return w
}

// choose decides which packets the network does not impair: those of rung, whose timeouts are long, and fatal NAKs.
// The QP that sends one is in Error afterwards and does not repeat it, so the status of the request would be a timeout.
func choose(d *sim.Datagram) impair.Verdict {
	var f wire.Frame
	if d.From == rung || d.From != attacker && wire.ParseIP(d.Data, &f) == nil &&
		f.Packet.BTH.Opcode == wire.RCAcknowledge && f.Packet.AETH.Syndrome.IsNAK() &&
		f.Packet.AETH.Syndrome != wire.NAKPSNSequence {
		return impair.Pass
	}
	return impair.Chance
}

// watch observes every packet of the network.
func (w *world) watch(d *sim.Datagram) {
	if d.Arrived {
		return
	}
	w.tally.add("packets on the network", 1)
	if d.From != attacker {
		w.sniff.see(d)
		w.truth.check(d)
	}
}

// virtual returns a port on the network.
func (w *world) virtual(a netip.Addr) openPort {
	// 1024 bytes: longer messages have several packets
	return func() (rvt.Port, error) { return sim.New(w.net, sim.Config{Addr: a, MTU: 3}) }
}

// openPort creates a port of an HCA.
type openPort func() (rvt.Port, error)

// plug creates an HCA.
func (w *world) plug(a netip.Addr, c reference.Config, ports ...openPort) (*adapter, error) {
	for _, open := range ports {
		p, err := open()
		if err != nil {
			for _, p := range c.Ports {
				err = errors.Join(err, p.Close())
			}
			return nil, fmt.Errorf("HCA at %v: %w", a, err)
		}
		c.Ports = append(c.Ports, p)
	}
	c.Override = w.truth.layer(a)
	h, err := reference.New(c)
	if err != nil {
		return nil, fmt.Errorf("HCA at %v: %w", a, err)
	}
	x := &adapter{a.String(), h}
	w.mu.Lock()
	w.hcas = append(w.hcas, x)
	w.mu.Unlock()
	return x, nil
}

// unplug closes an HCA, and checks that it has no objects left.
func (w *world) unplug(x *adapter) {
	for kind, n := range x.Live() {
		if n != 0 {
			w.v.failf("HCA at %s: %d objects of kind %s are left after everything was closed", x.name, n, kind)
		}
	}
	if err := x.Close(); err != nil {
		w.v.failf("HCA at %s: close: %v", x.name, err)
	}
	c := x.Counters()
	for _, k := range []string{"retries", "drop_icrc", "drop_source", "drop_duplicate", "drop_qkey", "drop_pkey",
		"drop_no_qp", "fatal_nak_sent",
		"rnr_nak_sent", "sequence_nak_sent", "drop_stale_ack"} {
		w.tally.add("engine: "+k, int(c[k]))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.hcas {
		if w.hcas[i] == x {
			w.hcas = append(w.hcas[:i:i], w.hcas[i+1:]...)
			break
		}
	}
}

// build starts the hosts and actors.
func (w *world) build() error {
	a, err := w.newHost(steadyA, w.virtual(steadyA), nil)
	if err != nil {
		return err
	}
	b, err := w.newHost(steadyB, w.virtual(steadyB), nil)
	if err != nil {
		return err
	}
	c, err := w.newHost(volatile, w.virtual(volatile), nil)
	if err != nil {
		return err
	}
	inj := faults.New(w.seed)
	f, err := w.newHost(faulty, w.virtual(faulty), inj)
	if err != nil {
		return err
	}
	for _, h := range []*host{a, b, c, f} {
		h.serve()
	}
	w.streams("a to b, 1", a, b, false)
	w.streams("a to b, 2", a, b, false)
	w.streams("b to a", b, a, false)
	w.streams("a to itself", a, a, false)
	w.streams("c to a", c, a, true)
	w.streams("b to c", b, c, true)
	w.streams("f to b", f, b, true)
	w.streams("a to f", a, f, true)
	w.repeat("faults", func(x *actor) { w.injectFaults(x, inj) })
	w.repeat("hot removal", func(x *actor) { w.hotRemoval(x, c) })
	w.repeat("clients of a", func(x *actor) { w.openClose(x, a) })
	w.groups(a, b, c)
	if err := w.managementAgents(a, b); err != nil {
		return err
	}
	if err := w.rawVerbs(); err != nil {
		return err
	}
	if err := w.overwrittenRings(); err != nil {
		return err
	}
	if err := w.udpHosts(); err != nil {
		return err
	}
	return w.forgery()
}

// udpHosts adds a pair of hosts on real sockets, where the machine has the addresses.
func (w *world) udpHosts() error {
	port := func(a netip.Addr) openPort {
		return func() (rvt.Port, error) { return udp.New(udp.Config{Addr: a, Port: udpPort, MTU: 3}) }
	}
	if !bindable(loop1) || !bindable(loop2) {
		w.tally.add("rounds without UDP: no such address, or taken", 1)
		return nil
	}
	u1, err := w.newHost(loop1, port(loop1), nil)
	if err != nil {
		return err
	}
	u2, err := w.newHost(loop2, port(loop2), nil)
	if err != nil {
		return err
	}
	u1.serve()
	u2.serve()
	w.streams("UDP 1 to 2", u1, u2, false)
	w.streams("UDP 2 to 1", u2, u1, false)
	return w.socketForgery()
}

// close closes everything after all actors have returned, in random order where the order does not matter.
func (w *world) close() {
	r := rand.New(rand.NewPCG(w.seed, hash("close")))
	r.Shuffle(len(w.hosts), func(i, k int) { w.hosts[i], w.hosts[k] = w.hosts[k], w.hosts[i] })
	for _, h := range w.hosts {
		if err := h.close(r); err != nil {
			w.v.failf("host %v: close: %v", h.addr, err)
		}
	}
	for len(w.hcas) > 0 {
		w.unplug(w.hcas[len(w.hcas)-1])
	}
}

// ended reports whether an error means that something was closed or canceled.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, errClosed) || errors.Is(err, errNetClosed)
}
