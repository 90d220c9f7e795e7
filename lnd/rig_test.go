package lnd

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// A host is a machine on a network, with an adapter, an access layer and a connection manager.
type host struct {
	t    *testing.T
	al   *accesslayer.AL
	hca  *reference.HCA
	m    *rdmacm.Manager
	addr netip.Addr
}

// newHost adds a host. If sends is not 0, its adapter creates no queue pair with more send requests. tries counts the
// attempts to create one with more than 32.
func newHost(t *testing.T, net *sim.Network, addr string, sends int, tries *int) *host {
	var l ciwrap.Layer
	if sends > 0 {
		l.PD = func(in ci.PD, _ ci.PDType) ci.PD { return &smallPD{ciwrap.PD{PD: in}, sends, tries} }
	}
	return newHostWith(t, net, addr, l)
}

// newHostWith adds a host with a layer over its adapter.
func newHostWith(t *testing.T, net *sim.Network, addr string, l ciwrap.Layer) *host {
	h := &host{t: t, al: accesslayer.New(accesslayer.Config{}), addr: netip.MustParseAddr(addr)}
	h.hca = must(reference.New(reference.Config{Override: l,
		Ports: []rvt.Port{testenv.Must(sim.New(net, sim.Config{Addr: h.addr}))}}))
	t.Cleanup(func() { assert.NoError(t, errors.Join(h.al.Close(), h.hca.Close())) })
	require.NoError(t, h.al.Register(h.hca))
	h.m = must(rdmacm.Open(h.al, rdmacm.OpenConfig{}))
	t.Cleanup(func() { assert.NoError(t, h.m.Close()) })
	return h
}

type smallPD struct {
	ciwrap.PD
	sends int
	tries *int
}

func (p *smallPD) CreateQP(c ci.QPCreate) (ci.QP, error) {
	if c.Type == ci.RC {
		*p.tries++
	}
	if c.Type == ci.RC && c.SendDepth > p.sends {
		return nil, &ci.Error{Verb: "PD.CreateQP", Status: ci.InsufficientResources}
	}
	return p.PD.CreateQP(c)
}

func (h *host) node(cfg Config) *Node { return h.nodeWith(cfg, nil) }

// nodeWith adds a node whose match entry on portal gives access to s, unless it is nil.
func (h *host) nodeWith(cfg Config, s *store) *Node {
	cfg.Addr = h.addr
	n, err := Listen(h.m, cfg)
	require.NoError(h.t, err)
	if s != nil {
		n.Attach(s.entry())
	}
	h.t.Cleanup(func() { assert.NoError(h.t, n.Close()) })
	return n
}

// portal is that of the tests.
const portal = 40

func target(match uint64) Target { return Target{Portal: portal, Match: match} }

// depth returns a configuration with a depth.
func depth(n int) Config {
	t := DefaultTunables()
	t.PeerCredits = n
	return Config{Tunables: &t}
}

func nidOf(h *host) NID { return must(NIDOf(h.addr, 0)) }

// pair returns two nodes, of which the second one has s, and the connection from the first one.
func pair(t *testing.T, net *sim.Network, cfg Config, s *store) (*Node, *Node, *conn) {
	ha, hb := newHost(t, net, "10.0.0.1", 0, nil), newHost(t, net, "10.0.0.2", 0, nil)
	na, nb := ha.node(cfg), hb.nodeWith(cfg, s)
	return na, nb, must(na.connect(limit(t), nb.nid))
}

// mortalNetwork returns a network that drops all packets while the bool is true.
func mortalNetwork() (*sim.Network, *atomic.Bool) {
	dead := new(atomic.Bool)
	return sim.NewNetwork(sim.NetworkConfig{Filter: func(*sim.Datagram) impair.Verdict {
		if dead.Load() {
			return impair.Drop
		}
		return impair.Pass
	}}), dead
}

func newNetwork() *sim.Network { return sim.NewNetwork(sim.NetworkConfig{}) }

// A store holds the data of a node in a test.
type store struct {
	mu    sync.Mutex
	data  map[uint64][]byte
	asked int // calls for the memory of a PUT
	done  int
	errs  []error
}

func newStore() *store { return &store{data: map[uint64][]byte{}} }

// Objects with special behavior.
const (
	nowhere = 99
	half    = 98
)

func (s *store) put(r Request) ([]byte, func(int, error)) {
	at, n := r.Match, r.Len
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	b := make([]byte, n)
	switch at {
	case nowhere:
		b = nil
	case half:
		b = b[:n/2]
	}
	return b, func(n int, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done++
		if err != nil {
			s.errs = append(s.errs, err)
		} else if b != nil {
			s.data[at] = b[:n]
		}
	}
}

func (s *store) get(r Request) []byte { return s.read(r.Match) }

func (s *store) read(at uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data[at]
}

func (s *store) entry() Entry {
	return Entry{Portal: portal, Ignore: 1<<64 - 1, OnPut: s.put, OnGet: s.get}
}

func (s *store) check(t *testing.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, s.asked, s.done, "calls of done")
}

// random returns bytes from a seed.
func random(seed uint64, n int) []byte {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
