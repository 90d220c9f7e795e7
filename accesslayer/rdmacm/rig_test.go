package rdmacm_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
)

const udpPort = 24791 // not that of RoCEv2, so that other programs do not interfere

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// within returns a context that ends long after the expected events.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}

// lan is a network between hosts. Without one, hosts have loopback addresses of this machine.
type lan struct{ *sim.Network }

func newLAN() *lan { return &lan{sim.NewNetwork(sim.NetworkConfig{})} }

// host is an access layer with an HCA for each address, and a Manager.
type host struct {
	lan  *lan
	al   *accesslayer.AL
	m    *rdmacm.Manager
	hcas map[string]*reference.HCA
}

func (l *lan) host(t testing.TB, addrs ...string) *host {
	t.Helper()
	h := &host{lan: l, al: accesslayer.New(accesslayer.Config{}), hcas: map[string]*reference.HCA{}}
	t.Cleanup(func() { assert.NoError(t, h.al.Close()) })
	for _, a := range addrs {
		h.plug(t, a)
	}
	m, err := rdmacm.Open(h.al, rdmacm.OpenConfig{})
	require.NoError(t, err)
	h.m = m
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return h
}

// plug adds an HCA, and waits until it is in use.
func (h *host) plug(t testing.TB, addr string) {
	t.Helper()
	a := netip.MustParseAddr(addr)
	var port rvt.Port
	if h.lan != nil && h.lan.Network != nil {
		port = testenv.Must(sim.New(h.lan.Network, sim.Config{Addr: a.WithZone(""), Interface: a.Zone()}))
	} else {
		port = testenv.Must(udp.New(udp.Config{Addr: a, Port: udpPort}))
	}
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	h.hcas[addr] = hca
	t.Cleanup(func() {
		if err := h.al.Deregister(hca.Info().GUID); !errors.Is(err, ci.NotFound) { // a test may have removed it
			assert.NoError(t, err)
		}
		assert.NoError(t, hca.Close())
	})
	require.NoError(t, h.al.Register(hca))
	require.NoError(t, h.al.WaitPnP(within(t)))
}

// pull removes an HCA.
func (h *host) pull(t testing.TB, addr string) {
	t.Helper()
	require.NoError(t, h.al.Deregister(h.hcas[addr].Info().GUID))
}

// buffer is registered memory.
type buffer struct {
	b []byte
	r ci.Region
}

func newBuffer(t testing.TB, id *rdmacm.ID, n int) *buffer {
	t.Helper()
	pd, err := id.PD()
	require.NoError(t, err)
	b := make([]byte, n)
	mr, err := pd.NewMR(ci.MRCreate{Memory: ci.Bytes(b), Access: ci.LocalWrite | ci.RemoteWrite | ci.RemoteRead})
	require.NoError(t, err)
	return &buffer{b, mr.Region()}
}

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// await fails the test if c is not closed in time.
func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-within(t).Done():
		t.Fatal("waited too long for ", what)
	}
}

// gidAddr returns the port of rping at an address.
func gidAddr(a string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(a), 7174) }

// patience and tick are the time and the interval of tests that poll for an effect in the background.
const patience, tick = testenv.Patience, 5 * time.Millisecond
