package ual_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/kproxy"
	"ciddk/kproxy/native"
	"ciddk/kproxy/native/server"
	"ciddk/link/sim"
	"ciddk/rvt"
	"ciddk/ual"
)

// A program opens an adapter of a daemon and registers memory. The daemon runs in the same process here; usually it is
// ddkd, and the program only calls Dial.
func Example() {
	dir, err := os.MkdirTemp("", "ual")
	check(err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "socket")
	stop := startDaemon(path)
	defer stop()

	c, err := ual.Dial(ual.Config{Path: path})
	check(err)
	defer c.Close()
	hcas, err := c.HCAs()
	check(err)
	ca, err := hcas[0].OpenCA(hcas[0].Info().GUID, func(ci.Event) {}, nil)
	check(err)
	attr, err := ca.Query()
	check(err)
	fmt.Println("port 1:", attr.Ports[0].State, netip.AddrFrom16(attr.Ports[0].GIDs[0].GID).Unmap())

	pd, err := ca.AllocatePD(ci.PDNormal)
	check(err)
	buf := make([]byte, 4096)
	mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(buf), Access: ci.LocalWrite | ci.RemoteWrite})
	check(err)
	mrAttr, err := mr.Query()
	check(err)
	fmt.Println("registered:", mrAttr.Length, "bytes")
	// Output:
	// port 1: Active 10.0.0.1
	// registered: 4096 bytes
}

// startDaemon serves an adapter at a socket until stop is called.
func startDaemon(path string) (stop func()) {
	port, err := sim.New(sim.NewNetwork(sim.NetworkConfig{}), sim.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	check(err)
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	check(err)
	al := accesslayer.New(accesslayer.Config{PollInterval: -1})
	check(al.Register(hca))
	core, err := kproxy.New(kproxy.Config{AL: al})
	check(err)
	l, err := native.Listen(path)
	check(err)
	s := server.New(core, clock.Real())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	return func() {
		check(l.Close())
		s.Close()
		check(<-done)
		check(core.Close())
		check(al.Close())
		check(hca.Close())
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
