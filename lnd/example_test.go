package lnd_test

import (
	"context"
	"fmt"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
	"ciddk/lnd"
	"ciddk/rvt"
)

// start creates an adapter on a network in memory, and a node on it.
func start(net *sim.Network, cfg lnd.Config) (*lnd.Node, func()) {
	hca := must(reference.New(reference.Config{Ports: []rvt.Port{testenv.Must(sim.New(net,
		sim.Config{Addr: cfg.Addr}))}}))
	al := accesslayer.New(accesslayer.Config{})
	check(al.Register(hca))
	m := must(rdmacm.Open(al, rdmacm.OpenConfig{}))
	n := must(lnd.Listen(m, cfg))
	return n, func() { check(n.Close(), m.Close(), al.Close(), hca.Close()) }
}

func Example() {
	net := sim.NewNetwork(sim.NetworkConfig{})
	kept := make([]byte, 1<<20)
	server, stop := start(net, lnd.Config{Addr: netip.MustParseAddr("10.0.0.1")})
	defer stop()
	target := lnd.Target{Portal: 40, Match: 4}
	server.Attach(lnd.Entry{Portal: target.Portal, Match: target.Match,
		OnPut: func(r lnd.Request) ([]byte, func(int, error)) {
			return kept[:r.Len], func(n int, err error) { fmt.Println("received", n, err) }
		},
		OnGet: func(lnd.Request) []byte { return kept },
	})
	client, stop := start(net, lnd.Config{Addr: netip.MustParseAddr("10.0.0.2")})
	defer stop()

	ctx := context.Background()
	info := must(client.Ping(ctx, server.NID()))
	fmt.Println(info.NIs[0].NID, info.NIs[1].NID)
	block := make([]byte, 500_000)
	copy(block, "written by RDMA")
	fmt.Println(must(client.Put(ctx, server.NID(), target, block)), "bytes put")

	clear(block)
	n := must(client.Get(ctx, server.NID(), target, block))
	fmt.Printf("%d bytes, the first: %s\n", n, block[:15])
	_, err := client.Get(ctx, server.NID(), lnd.Target{Portal: 41}, block)
	fmt.Println(err)
	// Output:
	// 0@lo 10.0.0.1@o2ib
	// received 500000 <nil>
	// 500000 bytes put
	// 500000 bytes, the first: written by RDMA
	// lnd: the peer has no memory or no data for this transfer: errno 61
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(errs ...error) {
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
}
