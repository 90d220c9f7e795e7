// On macOS, 127.0.0.1 is the only loopback address.

//go:build !darwin

package lnd_test

import (
	"context"
	"fmt"
	"net/netip"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/examples/lnd/lnd"
	"ciddk/hca/reference"
)

// start makes an adapter at an address of this machine, and a node on it.
func start(cfg lnd.Config) (*lnd.Node, func()) {
	hca := must(reference.New(reference.Config{Ports: []reference.PortConfig{reference.UDP(reference.UDPConfig{Addr: cfg.Addr, Port: 47922})}}))
	al := accesslayer.New(accesslayer.Config{})
	check(al.Register(hca))
	m := must(rdmacm.Open(al))
	n := must(lnd.Listen(m, cfg))
	return n, func() { check(n.Close(), m.Close(), al.Close(), hca.Close()) }
}

func Example() {
	kept := make([]byte, 1<<20)
	server, stop := start(lnd.Config{
		Addr: netip.MustParseAddr("127.0.0.1"),
		OnPut: func(_ context.Context, r lnd.Request) (lnd.Buffer, error) {
			return lnd.Buffer{Data: kept[:r.Length], Done: func(n int, err error) { fmt.Println("received", n, err) }}, nil
		},
		OnGet: func(_ context.Context, r lnd.Request) (lnd.Buffer, error) {
			if r.At.Portal != 4 {
				return lnd.Buffer{}, lnd.ErrRefused
			}
			return lnd.Buffer{Data: kept}, nil
		},
	})
	defer stop()
	client, stop := start(lnd.Config{Addr: netip.MustParseAddr("127.0.0.2")})
	defer stop()
	fmt.Println(client.NID(), "to", server.NID())

	ctx, peer := context.Background(), netip.MustParseAddr("127.0.0.1")
	block := make([]byte, 500_000)
	copy(block, "written by RDMA")
	check(client.Put(ctx, peer, lnd.Address{Portal: 4}, block))

	clear(block)
	n := must(client.Get(ctx, peer, lnd.Address{Portal: 4}, block))
	fmt.Printf("%d bytes, the first: %s\n", n, block[:15])
	_, err := client.Get(ctx, peer, lnd.Address{Portal: 5}, block)
	fmt.Println(err)
	// Output:
	// 127.0.0.2@o2ib to 127.0.0.1@o2ib
	// received 500000 <nil>
	// 500000 bytes, the first: written by RDMA
	// lnd: the peer has no place or no data for this
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
