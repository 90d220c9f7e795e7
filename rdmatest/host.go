package rdmatest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/hca/reference"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// A Host is a machine on a Network, with one adapter and one connection manager. Its program uses the methods of the
// Manager: Dial, Listen and the others. The Network closes the Manager and the adapter.
type Host struct {
	*rdmacm.Manager
	// Name is the name given to New.
	Name string
	// Addr is the IP address of the host.
	Addr netip.Addr
	// HCA is the adapter, for its counters and for SetLink. Programs that use verbs open it through the access layer,
	// Manager.AL.
	HCA *reference.HCA

	net    *Network
	number int // among the hosts, from 0
	starts int // how often Restart has opened the host before
	al     *accesslayer.AL
	once   sync.Once
	err    error // of close
	killed bool  // guarded by Network.mu
}

// AddrPort returns the address of the host with a port.
func (h *Host) AddrPort(port uint16) netip.AddrPort { return netip.AddrPortFrom(h.Addr, port) }

// random returns a source of randomness for one purpose of the host.
func (h *Host) random(purpose string) *rand.ChaCha8 {
	return rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "%d %d %q %s", h.net.cfg.Seed, h.starts, h.Name, purpose)))
}

// memoryAddr returns a source of addresses of memory, in the range of a process.
func (h *Host) memoryAddr() func(uint64) uint64 {
	const pages = 1<<47 - 1<<12
	var mu sync.Mutex
	r := rand.New(h.random("memory"))
	return func(uint64) uint64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Uint64() & pages
	}
}

// open opens the adapter and the manager.
func (h *Host) open() error {
	n := h.net
	c := HostConfig{HCA: reference.Config{Clock: n.clock, Rand: h.random("adapter")}}
	c.Manager.Rand = rand.New(h.random("manager"))
	c.Manager.MemoryAddr = h.memoryAddr()
	c.Manager.AccessLayer = accesslayer.Config{Clock: n.clock, PollInterval: -1} // the adapter reports every change
	if n.cfg.Configure != nil {
		n.cfg.Configure(h.Name, &c)
	}
	port, err := sim.New(n.net, sim.Config{Addr: h.Addr})
	if err != nil {
		return err
	}
	if _, err := impair.New(port, impair.Config{Out: n.cfg.Faults}); err != nil { // only its checks are used
		return errors.Join(fmt.Errorf("the field Config.Faults: %w", err), port.Close())
	}
	c.HCA.Ports = []rvt.Port{newLine(port, n.clock, n.delays[h.number])}
	if h.HCA, err = reference.New(c.HCA); err != nil {
		return err
	}
	h.al = accesslayer.New(c.Manager.AccessLayer)
	if err = h.al.Register(h.HCA); err == nil {
		if c.Manager.Resolver == nil {
			c.Manager.Resolver = resolver{resolve.NewSystem(h.al, nil), h.Addr}
		}
		h.Manager, err = rdmacm.Open(h.al, c.Manager)
	}
	if err != nil {
		return errors.Join(err, h.al.Close(), h.HCA.Close())
	}
	return nil
}

// close closes the host. It is idempotent.
func (h *Host) close() error {
	if h.Manager == nil { // New has failed
		return nil
	}
	h.once.Do(func() { h.err = errors.Join(h.Manager.Close(), h.al.Close(), h.HCA.Close()) })
	return h.err
}

// kill closes the host of which the network drops everything. It removes the adapter first, so that no call waits for a
// peer.
func (h *Host) kill() error {
	h.once.Do(func() {
		h.err = errors.Join(h.al.Deregister(h.HCA.Info().GUID), h.Manager.Close(), h.al.Close(), h.HCA.Close())
	})
	return h.err
}

// resolver resolves addresses without the routing table of the machine on which the test runs.
type resolver struct {
	*resolve.System
	addr netip.Addr
}

// ResolveAddr implements resolve.Resolver.
func (r resolver) ResolveAddr(ctx context.Context, q resolve.Query, done func(resolve.Source, error)) {
	if a := q.Local.Addr(); !a.IsValid() || a.IsUnspecified() {
		q.Local = netip.AddrPortFrom(r.addr, q.Local.Port())
	}
	r.System.ResolveAddr(ctx, q, done)
}
