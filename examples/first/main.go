// Command first is the README's first program: two software adapters on loopback, a reliable connection, one message.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"syscall"

	"ciddk/accesslayer/rdmacm"
	"ciddk/softroce"
)

func run(ctx context.Context, out io.Writer) {
	server, address := open()
	defer server.Close()
	client, _ := open()
	defer client.Close()

	at := netip.AddrPortFrom(address, 7174)
	listener := must(server.Listen(at, rdmacm.ListenConfig{}))
	go func() {
		c := must(client.Dial(ctx, at))
		must(0, c.Send(ctx, []byte("Hello over RoCEv2")))
		must(0, c.Close()) // waits until the message has been acknowledged
	}()
	request := must(listener.Accept(ctx))
	c := must(request.Accept(ctx))
	fmt.Fprintf(out, "received %q\n", must(c.Recv(ctx)))
}

// open opens an adapter on the first loopback address that no adapter uses.
func open() (*rdmacm.Manager, netip.Addr) {
	for a := netip.MustParseAddr("127.0.0.1"); ; a = a.Next() {
		m, err := softroce.Open(a, softroce.Config{})
		if !errors.Is(err, syscall.EADDRINUSE) {
			return must(m, err), a
		}
	}
}

func main() { run(context.Background(), os.Stdout) }

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
