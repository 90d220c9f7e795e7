package main

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
)

// A port of a fabric without a subnet manager is reported with what to do, and one that comes up is used.
func TestAwaitManager(t *testing.T) {
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(t, err)
	f, err := fabric.New(g, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	path := filepath.Join(t.TempDir(), "join.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := join.Serve(f, l, join.Config{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	dial := func() *join.Port {
		p, err := join.Dial(t.Context(), path, "h1", 0)
		require.NoError(t, err)
		return p
	}
	err = awaitManager(dial(), "h1", time.Millisecond)
	require.ErrorContains(t, err, "the port of h1 is in state Init")
	require.ErrorContains(t, err, "ddk-fabric serve --configure")
	require.Eventually(t, func() bool { return s.Sessions() == 0 }, time.Minute, time.Millisecond)
	require.NoError(t, f.Configure())
	p := dial()
	require.Eventually(t, func() bool { return p.Attr().State == ci.PortInit }, time.Minute, time.Millisecond)
	require.NoError(t, f.Configure())
	assert.NoError(t, awaitManager(p, "h1", time.Minute))
	require.NoError(t, p.Close())
}
