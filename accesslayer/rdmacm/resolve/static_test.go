package resolve

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// plug adds an HCA with an address on a network in memory to an access layer, until the end of the test.
func plug(t *testing.T, al *accesslayer.AL, net *sim.Network, addr string) ci.GUID {
	t.Helper()
	port := testenv.Must(sim.New(net, sim.Config{Addr: netip.MustParseAddr(addr)}))
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	guid := hca.Info().GUID
	t.Cleanup(func() { assert.NoError(t, errors.Join(al.Deregister(guid), hca.Close())) })
	require.NoError(t, al.Register(hca))
	return guid
}

// TestStaticElse tests that a Static uses another Resolver for unknown addresses.
func TestStaticElse(t *testing.T) {
	al := accesslayer.New(accesslayer.Config{})
	t.Cleanup(func() { assert.NoError(t, al.Close()) })
	known, other := netip.MustParseAddr("10.66.0.9"), netip.MustParseAddrPort("10.66.0.8:1")
	path := cm.Path{}
	path.Port.CA, path.Port.Num = plug(t, al, sim.NewNetwork(sim.NetworkConfig{}), "10.66.0.1"), 1
	r := &Static{AL: al, Paths: map[netip.Addr]cm.Path{known: path}}
	ctx := t.Context()
	_, err := resolveRoute(ctx, r, Query{Remote: other}, Source{})
	require.ErrorIs(t, err, syscall.EHOSTUNREACH)
	system := NewSystem(al, nil)
	r.Else = system
	src, err := resolveAddr(ctx, r, Query{Remote: other})
	require.NoError(t, err)
	assert.Equal(t, "10.66.0.1", src.Addr.String())
	p, err := resolveRoute(ctx, r, Query{Remote: other}, src)
	require.NoError(t, err)
	assert.Equal(t, netip.AddrFrom16(p.AV.GRH.DGID).Unmap(), other.Addr())
	require.NoError(t, system.Close())
	path.AV.GRH.SGIDIndex = 500
	r.Paths[known] = path
	_, err = resolveAddr(ctx, r, Query{Remote: netip.AddrPortFrom(known, 1)})
	require.ErrorIs(t, err, ci.InvalidParameter)
	path.Port.CA++
	r.Paths[known] = path
	_, err = resolveAddr(ctx, r, Query{Remote: netip.AddrPortFrom(known, 1)})
	require.ErrorIs(t, err, ci.NotFound)
}
