// Package cmrig has the hosts on which accesslayer/rdmacm and the packages below it are tested: access layers with
// software adapters, on a network in memory or on loopback addresses.
package cmrig

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// UDPPort is not that of RoCEv2, so that other programs do not interfere.
const UDPPort = 24791

// Within returns a context that ends long after the expected events.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// LAN is a network between hosts. Without a Network, hosts have loopback addresses of this machine.
type LAN[M io.Closer] struct {
	Network *sim.Network
	Open    func(*accesslayer.AL) (M, error) // creates the Manager of a host
}

// NewLAN creates a network.
func NewLAN[M io.Closer](open func(*accesslayer.AL) (M, error)) *LAN[M] {
	return &LAN[M]{sim.NewNetwork(sim.NetworkConfig{}), open}
}

// Host is an access layer with an HCA for each address, and a Manager.
type Host[M io.Closer] struct {
	AL   *accesslayer.AL
	M    M
	HCAs map[string]*reference.HCA
	LAN  *sim.Network // of the next Plug
}

// Host adds a host with these addresses. The end of the test removes it.
func (l *LAN[M]) Host(t testing.TB, addrs ...string) *Host[M] {
	t.Helper()
	h := &Host[M]{LAN: l.Network, AL: accesslayer.New(accesslayer.Config{}), HCAs: map[string]*reference.HCA{}}
	t.Cleanup(func() { assert.NoError(t, h.AL.Close()) })
	for _, a := range addrs {
		h.Plug(t, a)
	}
	m, err := l.Open(h.AL)
	require.NoError(t, err)
	h.M = m
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return h
}

// Plug adds an HCA, and waits until it is in use.
func (h *Host[M]) Plug(t testing.TB, addr string) {
	t.Helper()
	a := netip.MustParseAddr(addr)
	var port rvt.Port
	if h.LAN != nil {
		port = testenv.Must(sim.New(h.LAN, sim.Config{Addr: a.WithZone(""), Interface: a.Zone()}))
	} else {
		port = testenv.Must(udp.New(udp.Config{Addr: a, Port: UDPPort}))
	}
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	h.HCAs[addr] = hca
	t.Cleanup(func() {
		if err := h.AL.Deregister(hca.Info().GUID); !errors.Is(err, ci.NotFound) { // a test may have removed it
			assert.NoError(t, err)
		}
		assert.NoError(t, hca.Close())
	})
	require.NoError(t, h.AL.Register(hca))
	require.NoError(t, h.AL.WaitPnP(Within(t)))
}

// Pull removes an HCA.
func (h *Host[M]) Pull(t testing.TB, addr string) {
	t.Helper()
	require.NoError(t, h.AL.Deregister(h.HCAs[addr].Info().GUID))
}

// Buffer is registered memory.
type Buffer struct {
	B []byte
	R ci.Region
}

// NewBuffer registers n bytes with the PD of an ID.
func NewBuffer(t testing.TB, id interface {
	PD() (*accesslayer.PD, error)
}, n int) *Buffer {
	t.Helper()
	pd, err := id.PD()
	require.NoError(t, err)
	b := make([]byte, n)
	mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead})
	require.NoError(t, err)
	return &Buffer{b, mr.Region()}
}

// Await fails the test if c is not closed in time.
func Await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-Within(t).Done():
		t.Fatal("waited too long for ", what)
	}
}

// Tick is the interval of tests that poll for an effect in the background.
const Tick = 5 * time.Millisecond
