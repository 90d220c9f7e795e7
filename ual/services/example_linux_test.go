package services_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/accesslayer/rdmacm"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	daemon "ciddk/kproxy/services"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
	"ciddk/ual/services"
)

// Two programs connect by IP address through the adapter of a daemon. All of them are in one process here; usually the
// daemon is ddkd, and each program only calls Dial.
func Example() {
	dir, err := os.MkdirTemp("", "services")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	defer startDaemon(path)()

	ctx := context.Background()
	at := netip.MustParseAddrPort("10.0.0.1:7174")
	config := services.Config{UAL: ual.Config{Path: path}}
	one, err := services.Dial(config)
	check(err)
	defer one.Close()
	ln, err := one.Listen(at, rdmacm.ListenConfig{})
	check(err)
	go func() {
		request, err := ln.Accept(ctx)
		check(err)
		c, err := request.Accept(ctx)
		check(err)
		check(c.Send(ctx, []byte("hello from another process")))
		check(c.Close())
	}()

	two, err := services.Dial(config)
	check(err)
	defer two.Close()
	c, err := two.Dial(ctx, at)
	check(err)
	m, err := c.Recv(ctx)
	check(err)
	fmt.Println(string(m))
	check(c.Close())
	// Output: hello from another process
}

// startDaemon serves an adapter and its services at a socket, as ddkd does, until stop is called.
func startDaemon(path string) (stop func()) {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	check(err)
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	check(err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	check(al.Register(hca))
	m, err := mads.New(al, mads.Config{})
	check(err)
	c, err := cm.New(al, m, cm.Config{})
	check(err)
	s, err := daemon.New(daemon.Config{AL: al, MAD: m, CM: c})
	check(err)
	core, err := kproxy.New(kproxy.Config{AL: al, Service: s, Logger: slog.New(slog.DiscardHandler)})
	check(err)
	l, err := native.Listen(path)
	check(err)
	front := server.New(core, clock.Real())
	done := make(chan error, 1)
	go func() { done <- front.Serve(l) }()
	return func() {
		check(l.Close())
		front.Close()
		check(<-done)
		for _, f := range []func() error{core.Close, s.Close, c.Close, m.Close, al.Close, hca.Close} {
			check(f())
		}
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
