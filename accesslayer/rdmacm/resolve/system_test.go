package resolve

import (
	"context"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/rdmacm/internal/address"
	"ciddk/ci"
	"ciddk/link/sim"
)

// TestResolveAddr tests the choice of a port from the addresses of HCAs and the operating system's route.
func TestResolveAddr(t *testing.T) {
	al := accesslayer.New(accesslayer.Config{})
	t.Cleanup(func() { assert.NoError(t, al.Close()) })
	r := NewSystem(al, nil)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	remote := netip.MustParseAddrPort("10.9.9.9:1")
	_, err := resolveAddr(t.Context(), r, Query{Remote: remote})
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	assert.ErrorContains(t, err, "no active port")

	net := sim.NewNetwork(sim.NetworkConfig{})
	addrs := []string{"10.1.0.1", "10.1.2.1", "192.168.0.1", "127.0.0.9", "fd00::1", "fd00:0:0:1::1", "fe80::1"}
	for _, a := range addrs {
		plug(t, al, net, a)
	}
	tests := map[string]struct {
		local, remote, os string // os: the source address of the operating system
		want              string
		err               error
	}{
		"its own address":               {remote: "10.1.2.1", os: "10.1.0.1", want: "10.1.2.1"},
		"as the system routes":          {remote: "8.8.8.8", os: "192.168.0.1", want: "192.168.0.1"},
		"the closest, without a route":  {remote: "10.1.2.77", want: "10.1.2.1"},
		"the closest, routed elsewhere": {remote: "10.1.0.77", os: "172.16.0.1", want: "10.1.0.1"},
		"bound": {local: "192.168.0.1", remote: "10.1.0.77", os: "10.1.0.1",
			want: "192.168.0.1"},
		"bound to any":               {local: "0.0.0.0", remote: "10.1.0.77", os: "10.1.0.1", want: "10.1.0.1"},
		"bound to no HCA's":          {local: "10.1.0.2", remote: "10.1.0.77", err: syscall.EADDRNOTAVAIL},
		"bound to another version":   {local: "fd00::1", remote: "10.1.0.77", err: syscall.EADDRNOTAVAIL},
		"mapped":                     {remote: "::ffff:10.1.0.1", want: "10.1.0.1"},
		"IPv6, the closest":          {remote: "fd00:0:0:1::2", want: "fd00:0:0:1::1"},
		"loopback is its own kind":   {remote: "127.0.0.1", os: "127.0.0.1", want: "127.0.0.9"},
		"link-local":                 {remote: "fe80::2", want: "fe80::1"},
		"too far":                    {remote: "11.0.0.1", os: "10.77.0.1", err: syscall.EHOSTUNREACH},
		"another version's loopback": {remote: "::1", err: syscall.EHOSTUNREACH},
		"unspecified":                {remote: "0.0.0.0", err: syscall.EADDRNOTAVAIL},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r.routed = func(netip.Addr) netip.Addr {
				a, _ := netip.ParseAddr(tt.os)
				return a
			}
			q := Query{Remote: netip.AddrPortFrom(netip.MustParseAddr(tt.remote), 1)}
			if tt.local != "" {
				q.Local = netip.AddrPortFrom(netip.MustParseAddr(tt.local), 2)
			}
			s, err := resolveAddr(t.Context(), r, q)
			require.ErrorIs(t, err, tt.err)
			if tt.err != nil {
				return
			}
			assert.Equal(t, tt.want, s.Addr.String())
			assert.Equal(t, address.GIDOf(s.Addr), s.GID)
			assert.Equal(t, ci.LinkEthernet, s.Link)
			p, err := resolveRoute(t.Context(), r, q, s)
			require.NoError(t, err)
			assert.Equal(t, s.Port, p.Port)
			assert.True(t, p.AV.Global)
			assert.Equal(t, address.GIDOf(netip.MustParseAddr(tt.remote).Unmap()), p.AV.GRH.DGID)
			assert.Equal(t, uint8(64), p.AV.GRH.HopLimit)
			assert.NotZero(t, p.AV.GRH.FlowLabel)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.routed = routed
	_, err = resolveAddr(ctx, r, Query{Remote: remote})
	require.ErrorIs(t, err, context.Canceled)
}

// TestRouted tests the operating system's source address for the one address that every machine has a route to.
func TestRouted(t *testing.T) {
	assert.Equal(t, "127.0.0.1", routed(netip.MustParseAddr("127.0.0.1")).String())
	assert.False(t, routed(netip.Addr{}).IsValid())
}

// TestFlowLabel tests that flow labels differ between connections, have 20 bits, and are not 0.
func TestFlowLabel(t *testing.T) {
	seen := map[uint32]bool{}
	b := netip.MustParseAddrPort("10.0.0.2:7174")
	for p := range uint16(1000) {
		f := flowLabel(netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), p), b)
		require.True(t, f > 0 && f < 1<<20)
		seen[f&0x3fff] = true // the bits that the UDP source port is made from
	}
	assert.Greater(t, len(seen), 900)
}

// resolveAddr returns the result of a Resolver that calls done before it returns.
func resolveAddr(ctx context.Context, r Resolver, q Query) (s Source, err error) {
	r.ResolveAddr(ctx, q, func(got Source, gotErr error) { s, err = got, gotErr })
	return s, err
}

// resolveRoute returns the result of a Resolver that calls done before it returns.
func resolveRoute(ctx context.Context, r Resolver, q Query, from Source) (p cm.Path, err error) {
	r.ResolveRoute(ctx, q, from, func(got cm.Path, gotErr error) { p, err = got, gotErr })
	return p, err
}
