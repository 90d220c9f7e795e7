package opensm

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm"
	"ciddk/accesslayer/rdmacm/resolve"
	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/hca/reference"
	"ciddk/rvt"
)

// A peer is an adapter with a manager of connections.
type peer struct {
	m    *rdmacm.Manager
	port mads.Port
	attr *ci.PortAttr
	addr netip.Addr // its GID
}

// connector opens an adapter at a node of a fabric, with a manager of connections. If paths is not nil, these are the
// manager's paths.
func connector(t testing.TB, f *fabric.Fabric, name string, paths map[netip.Addr]cm.Path) *peer {
	t.Helper()
	p, err := f.CAPort(name, 0)
	require.NoError(t, err)
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{p}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hca.Close()) })
	x := &peer{port: mads.Port{CA: hca.Info().GUID, Num: 1}}
	al := accesslayer.New(accesslayer.Config{})
	t.Cleanup(func() { require.NoError(t, al.Close()) })
	require.NoError(t, al.Register(hca))
	cfg := rdmacm.OpenConfig{}
	if paths != nil {
		cfg.Resolver = &resolve.Static{AL: al, Paths: paths}
	}
	x.m, err = rdmacm.Open(al, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.m.Close()) })
	a, err := al.Adapter(x.port.CA)
	require.NoError(t, err)
	x.attr, err = a.Port(1)
	require.NoError(t, err)
	x.addr = netip.AddrFrom16(x.attr.GIDs[0].GID)
	return x
}

// echo connects a client with a server by the server's GID, and exchanges messages.
func echo(t *testing.T, client, server *peer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ln, err := server.m.Listen(netip.AddrPortFrom(server.addr, 7174), rdmacm.ListenConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			request, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			c, err := request.Accept(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			b, err := c.Recv(ctx)
			if err != nil {
				return err
			}
			if err := c.Send(ctx, append([]byte("echo "), b...)); err != nil {
				return err
			}
			_, _ = c.Recv(ctx) // until the client has closed
			return nil
		}()
	}()
	c, err := client.m.Dial(ctx, netip.AddrPortFrom(server.addr, 7174))
	require.NoError(t, err)
	require.NoError(t, c.Send(ctx, []byte("hello")))
	b, err := c.Recv(ctx)
	require.NoError(t, err)
	assert.Equal(t, "echo hello", string(b))
	require.NoError(t, c.Close())
	require.NoError(t, <-served)
}

// Programs connect by GID over paths of OpenSM, also after it was restarted.
func TestConnect(t *testing.T) {
	r, m := managed(t)
	client, server := connector(t, r.fabric, "h2", nil), connector(t, r.fabric, "h7", nil)
	echo(t, client, server)
	echo(t, client, server)
	m.stop()
	r.manage("h1").waitUp(1)
	echo(t, client, server)
	echo(t, server, client)
}

// Programs connect over a fabric without a subnet manager, with paths of their own.
func TestConnectStatic(t *testing.T) {
	g, err := tree.Generate()
	require.NoError(t, err)
	f, err := fabric.New(g, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	require.NoError(t, f.Configure())
	paths := map[netip.Addr]cm.Path{}
	client, server := connector(t, f, "h2", paths), connector(t, f, "h7", map[netip.Addr]cm.Path{})
	paths[server.addr] = cm.Path{Port: client.port, PKey: 0xffff, MTU: ci.MTU2048, LifeTime: 14, AV: ci.AVAttr{Port: 1,
		DLID: server.attr.LID, Global: true, GRH: ci.GRH{DGID: server.attr.GIDs[0].GID, HopLimit: 1}}}
	echo(t, client, server)
}

// OpenSM's QoS rules assign service levels to IP ports.
func TestSLForIP(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy")
	require.NoError(t, os.WriteFile(policy, []byte("qos-ulps\n any, service-id 0x0000000001061b58-0x0000000001061b59 "+
		": 3\n default : 0\nend-qos-ulps\n"), 0o600))
	r, _ := managed(t, "-Q", "-Y", policy)
	h := r.host("h2")
	for ipPort, want := range map[uint16]ci.SL{0x1b58: 3, 0x1b59: 3, 0x1b60: 0} {
		sl, err := h.sa.SLForIP(t.Context(), h.port, ipPort)
		require.NoError(t, err)
		assert.Equal(t, want, sl, "port %#x", ipPort)
	}
}
