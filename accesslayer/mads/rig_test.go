package mads_test

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/mad"
	"ciddk/rvt"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// node is a host: an access layer with one HCA and its MAD services.
type node struct {
	t   testing.TB
	al  *accesslayer.AL
	hca *reference.HCA
	m   *mads.Manager
}

type nodeConfig struct {
	clock clock.Clock
	mads  mads.Config
	caps  ci.Caps
	wrap  ciwrap.Layer
}

func newNode(t testing.TB, c nodeConfig, ports ...rvt.Port) *node {
	n := &node{t: t}
	var err error
	n.hca, err = reference.New(reference.Config{Ports: ports, Clock: c.clock, Caps: c.caps, Override: c.wrap})
	require.NoError(t, err)
	n.al = accesslayer.New(accesslayer.Config{Clock: c.clock, PollInterval: -1,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, n.al.Register(n.hca))
	n.m, err = mads.New(n.al, c.mads)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, n.m.Close())
		assert.NoError(t, n.al.Close())
		assert.NoError(t, n.hca.Close())
	})
	return n
}

func (n *node) port() mads.Port { return mads.Port{CA: n.hca.Info().GUID, Num: 1} }

func (n *node) attr() *ci.PortAttr { return must(must(n.al.Adapter(n.hca.Info().GUID)).Port(1)) }

// address returns the address of the node's QP1 for other nodes.
func (n *node) address() mads.Address {
	a := mads.Address{QPN: 1}
	if p := n.attr(); p.Link == ci.LinkEthernet {
		a.AV.Global, a.AV.GRH.DGID = true, p.GIDs[0].GID
	} else {
		a.AV.DLID = p.LID
	}
	return a
}

// qp0 returns the address of the node's QP0.
func (n *node) qp0() mads.Address { return mads.Address{AV: ci.AVAttr{DLID: n.attr().LID}} }

func (n *node) agent(c mads.AgentConfig) mads.Agent {
	n.t.Helper()
	if c.Port == (mads.Port{}) {
		c.Port = n.port()
	}
	a, err := n.m.Register(c)
	require.NoError(n.t, err)
	return a
}

func (n *node) counters() mads.Counters { return n.m.Counters()[n.port()] }

var udpPort atomic.Uint32

// wires are the links between two nodes. Each returns two ports.
var wires = map[string]func() [2]rvt.Port{
	"direct": func() [2]rvt.Port {
		l := direct.NewLink()
		return [2]rvt.Port{testenv.Must(direct.New(l, direct.Config{})), testenv.Must(direct.New(l, direct.Config{}))}
	},
	"UDP, IPv4": func() [2]rvt.Port { return udpPorts("127.0.0.2", "127.0.0.3") },
	"virtual, IPv6": func() [2]rvt.Port {
		n := sim.NewNetwork(sim.NetworkConfig{})
		p := func(s string) rvt.Port {
			return testenv.Must(sim.New(n, sim.Config{Addr: netip.MustParseAddr(s)}))
		}
		return [2]rvt.Port{p("fd00::1"), p("fd00::2")}
	},
}

func udpPorts(a, b string) [2]rvt.Port {
	at := uint16(20000 + udpPort.Add(1))
	p := func(s string) rvt.Port {
		return testenv.Must(udp.New(udp.Config{Addr: netip.MustParseAddr(s), Port: at}))
	}
	return [2]rvt.Port{p(a), p(b)}
}

// pair runs a test with two nodes on each kind of link.
func pair(t *testing.T, f func(t *testing.T, a, b *node)) {
	for name, wire := range wires {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := wire()
			f(t, newNode(t, nodeConfig{}, p[0]), newNode(t, nodeConfig{}, p[1]))
		})
	}
}

// request returns a request.
func request(class mad.Class, version uint8, m mad.Method, tid uint64) []byte {
	b := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: 1, Class: class, ClassVersion: version, Method: m, TID: tid}
	h.Put(b)
	return b
}

// soon returns a context for events that must happen at once.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// bubble runs a test with two nodes on a direct link, in virtual time.
func bubble(t *testing.T, ca, cb nodeConfig, f func(t *testing.T, a, b *node)) {
	synctest.Test(t, func(t *testing.T) {
		l := direct.NewLink()
		f(t, newNode(t, ca, testenv.Must(direct.New(l, direct.Config{}))),
			newNode(t, cb, testenv.Must(direct.New(l, direct.Config{}))))
	})
}

// single runs a test with one node, in virtual time.
func single(t *testing.T, f func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, newNode(t, nodeConfig{}, testenv.Must(direct.New(direct.NewLink(), direct.Config{}))))
	})
}
