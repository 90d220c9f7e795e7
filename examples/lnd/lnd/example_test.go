package lnd_test

import (
	"context"
	"fmt"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/examples/lnd/lnd"
	"ciddk/hca/reference"
	"ciddk/internal/testenv"
	"ciddk/link/sim"
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
	_, stop := start(net, lnd.Config{
		Addr: netip.MustParseAddr("10.0.0.1"),
		OnPut: func(_ netip.Addr, _ uint64, n int) ([]byte, func(int, error)) {
			return kept[:n], func(n int, err error) { fmt.Println("received", n, err) }
		},
		OnGet: func(_ netip.Addr, match uint64, _ int) []byte {
			if match != 4 {
				return nil
			}
			return kept
		},
	})
	defer stop()
	client, stop := start(net, lnd.Config{Addr: netip.MustParseAddr("10.0.0.2")})
	defer stop()

	ctx := context.Background()
	c := must(client.Dial(ctx, netip.MustParseAddr("10.0.0.1")))
	block := make([]byte, 500_000)
	copy(block, "written by RDMA")
	fmt.Println(must(c.Put(ctx, 4, block)), "bytes put")

	clear(block)
	n := must(c.Get(ctx, 4, block))
	fmt.Printf("%d bytes, the first: %s\n", n, block[:15])
	_, err := c.Get(ctx, 5, block)
	fmt.Println(err)
	// Output:
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
