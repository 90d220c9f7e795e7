package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	daemon "ciddk/kproxy/services"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// startDaemon serves two adapters at a socket, as ddkd does, until the test ends.
func startDaemon(t *testing.T, path string, addrs ...string) {
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	var closers []func() error
	network := sim.NewNetwork(sim.NetworkConfig{})
	for _, a := range addrs {
		hca, err := reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(sim.New(network,
			sim.Config{Addr: netip.MustParseAddr(a)}))}})
		require.NoError(t, err)
		require.NoError(t, al.Register(hca))
		closers = append(closers, hca.Close)
	}
	m, err := mads.New(al, mads.Config{})
	require.NoError(t, err)
	c, err := cm.New(al, m, cm.Config{})
	require.NoError(t, err)
	s, err := daemon.New(daemon.Config{AL: al, MAD: m, CM: c})
	require.NoError(t, err)
	core, err := kproxy.New(kproxy.Config{AL: al, Service: s, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l, err := native.Listen(path)
	require.NoError(t, err)
	front, done := server.New(core, clock.Real()), make(chan error, 1)
	go func() { done <- front.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		front.Close()
		assert.NoError(t, <-done)
		for _, f := range append([]func() error{core.Close, s.Close, c.Close, m.Close, al.Close}, closers...) {
			assert.NoError(t, f())
		}
	})
}

// TestDaemon has two nodes on adapters of a daemon, which have no fast registration there.
func TestDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	startDaemon(t, path, "10.0.0.1", "10.0.0.2")
	ctx, cancel := context.WithCancel(t.Context())
	ready, out := io.Pipe()
	done := make(chan int)
	go func() {
		status := run(ctx, []string{"serve", "--addr", "10.0.0.1", "--daemon", path}, out, io.Discard)
		_ = out.Close()
		done <- status
	}()
	line := make([]byte, 100)
	_, err := ready.Read(line)
	require.NoError(t, err)
	var text bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"selftest", "10.0.0.1@o2ib", "--addr", "10.0.0.2", "--daemon", path,
		"--rounds", "2"}, &text, &text), &text)
	require.Contains(t, text.String(), "bytes moved and checked")
	cancel()
	require.Zero(t, <-done)
}
