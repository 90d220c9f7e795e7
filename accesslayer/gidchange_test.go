package accesslayer_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// TestGIDChangeOfThePort checks that clients learn of addresses that come and go at a port of the kit's own HCA, with
// the new table.
func TestGIDChangeOfThePort(t *testing.T) {
	t.Parallel()
	al := newAL(t)
	first, second := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	port := testenv.Must(sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: first}))
	hca := must(reference.New(reference.Config{Ports: []rvt.Port{port}}))
	t.Cleanup(func() {
		require.NoError(t, al.Deregister(hca.Info().GUID))
		require.NoError(t, hca.Close())
	})
	require.NoError(t, al.Register(hca))
	tables := make(chan []netip.Addr, 10)
	c := must(al.Open(accesslayer.ClientConfig{Name: t.Name()}))
	pnp := must(c.RegisterPnP(accesslayer.PnPConfig{Sync: true, Port: func(_ *accesslayer.Adapter, _ any,
		e accesslayer.PortEvent) {
		if e.Type != accesslayer.PortGID {
			return
		}
		var table []netip.Addr
		for _, g := range e.Attr.GIDs {
			table = append(table, netip.AddrFrom16(g.GID).Unmap())
		}
		tables <- table
	}}))
	require.NoError(t, port.SetAddresses(first, second))
	require.Equal(t, []netip.Addr{first, second}, <-tables)
	require.NoError(t, port.SetAddresses(second))
	require.Equal(t, []netip.Addr{netip.IPv6Unspecified(), second}, <-tables)
	require.NoError(t, pnp.Destroy())
	require.NoError(t, c.Close())
}
