package main

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/fabric"
	"ciddk/fabric/join"
	"ciddk/fabric/topology"
	"ciddk/hca/reference"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/validate"
)

// A target whose service levels have MTUs of their own passes the cases about them.
func TestServiceLevelMTUs(t *testing.T) {
	g, err := topology.FatTree{Down: []int{2}, Up: []int{1}}.Generate()
	require.NoError(t, err)
	f, err := fabric.New(g, fabric.Config{LaneMTUs: []ci.MTU{0, ci.MTU1024, ci.MTU256}})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	ctx, cancel := context.WithCancel(t.Context())
	kept := make(chan error, 1)
	go func() { kept <- f.KeepConfigured(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-kept)
	})
	path := filepath.Join(t.TempDir(), "join.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := join.Serve(f, l, join.Config{})
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for _, node := range []string{"h1", "h2"} {
		p, err := join.Dial(t.Context(), path, node, 0)
		require.NoError(t, err)
		q := mad.SMP{Header: mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassSubnetLID,
			ClassVersion: mad.ClassVersionSubnet, Method: mad.Set, TID: 1, Attribute: mad.AttrSLtoVL}}
		(&mad.SLtoVL{3: 1, 4: 2}).Put(q.Data[:])
		var in, out ci.MAD
		q.Put(in[:])
		h, err := reference.New(reference.Config{Ports: []rvt.Port{p}})
		require.NoError(t, err)
		ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
		require.NoError(t, err)
		require.NoError(t, ca.LocalMAD(1, nil, &in, &out))
		require.Equal(t, uint8(mad.GetResp), out[3])
		require.NoError(t, ca.Destroy())
		require.NoError(t, h.Close())
	}
	require.Eventually(t, func() bool { return s.Sessions() == 0 }, time.Minute, time.Millisecond)
	var out, errs bytes.Buffer
	config := testConfig()
	config.Stdout, config.Stderr = &out, &errs
	code := cli.Main(config, []string{"run", "reference", "--in-process", "--link", "fabric", "--set", "fabric=" + path,
		"--set", "nodes=h1,h2", "--timeout", "1m", "--profile", "full",
		"--case", "query.mtus*"})
	assert.Equal(t, validate.ExitCertified, code, "%s%s", out.String(), errs.String())
	assert.Contains(t, out.String(), "pass   query.mtus-datagram")
}

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
