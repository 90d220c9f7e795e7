package services_test

import (
	"context"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/link/sim"
	"ciddk/link/udp"
	"ciddk/rvt"
)

// rails are the names of two interfaces whose hosts have the same link-local addresses.
var rails = []string{"rail0", "rail1"}

// TestZones connects clients of two daemons, whose adapters have the same link-local addresses on two networks.
func TestZones(t *testing.T) {
	networks := map[string]*sim.Network{}
	for _, rail := range rails {
		networks[rail] = sim.NewNetwork(sim.NetworkConfig{})
	}
	testZones(t, func(a netip.Addr, rail string) (rvt.Port, error) {
		return sim.New(networks[rail], sim.Config{Addr: a, Interface: rail})
	})
}

// TestZonesOfInterfaces does so with the interfaces of a network namespace.
func TestZonesOfInterfaces(t *testing.T) {
	if testenv.Namespace(t, `ip link set lo up
		for i in 0 1; do
			ip link add rail$i type veth peer name peer$i
			ip link set rail$i up
			ip link set peer$i up
			ip addr add fe80::1/64 dev rail$i nodad
			ip addr add fe80::2/64 dev rail$i nodad
		done`) {
		testZones(t, func(a netip.Addr, rail string) (rvt.Port, error) {
			return udp.New(udp.Config{Addr: a.WithZone(rail)})
		})
	}
}

func testZones(t *testing.T, newPort func(a netip.Addr, rail string) (rvt.Port, error)) {
	ctx := deadline(t)
	var hosts []*rdmacm.Manager
	for _, a := range []string{"fe80::1", "fe80::2"} {
		var ports []rvt.Port
		for _, rail := range rails {
			p, err := newPort(netip.MustParseAddr(a), rail)
			require.NoError(t, err)
			ports = append(ports, p)
		}
		hosts = append(hosts, newRig(t, kproxy.Config{}, ports...).manager())
	}
	server, client := hosts[0], hosts[1]
	at := func(host, zone string) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(host).WithZone(zone), 7174)
	}
	var listeners []*rdmacm.Listener
	for _, rail := range rails {
		ln, err := server.Listen(at("fe80::1", rail), rdmacm.ListenConfig{})
		require.NoError(t, err)
		assert.Equal(t, at("fe80::1", rail), ln.Addr().AddrPort)
		listeners = append(listeners, ln)
		_, err = server.Listen(at("fe80::1", rail), rdmacm.ListenConfig{})
		require.ErrorIs(t, err, syscall.EADDRINUSE)
	}
	for i, rail := range rails {
		for _, m := range []*rdmacm.Manager{client, server} { // from another host and from the address itself
			testZone(ctx, t, listeners[i], m, at("fe80::1", rail))
		}
	}
	_, err := client.Dial(ctx, at("fe80::1", "other"))
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	for _, ln := range listeners {
		require.NoError(t, ln.Close())
	}
}

// testZone checks the addresses of the ends of a connection.
func testZone(ctx context.Context, t *testing.T, ln *rdmacm.Listener, from *rdmacm.Manager, to netip.AddrPort) {
	var accepted *rdmacm.Conn
	served := make(chan error, 1)
	go func() {
		r, err := ln.Accept(ctx)
		if err == nil {
			accepted, err = r.Accept(ctx)
		}
		served <- err
	}()
	c, err := from.Dial(ctx, to)
	require.NoError(t, err)
	require.NoError(t, <-served)
	assert.Equal(t, to, c.RemoteAddr().AddrPort)
	assert.Equal(t, to, accepted.LocalAddr().AddrPort)
	assert.Equal(t, c.LocalAddr().AddrPort, accepted.RemoteAddr().AddrPort)
	assert.Equal(t, to.Addr().Zone(), c.LocalAddr().AddrPort.Addr().Zone())
	require.NoError(t, c.Close())
	require.NoError(t, accepted.Close())
}
