// Command first is the README's first program: two software adapters on loopback, a reliable connection, one message.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"

	"ciddk/accesslayer/rdmacm"
	"ciddk/softroce"
)

func main() { run(context.Background(), os.Stdout) }

func run(ctx context.Context, out io.Writer) {
	server := must(softroce.Open(netip.MustParseAddr("127.0.0.1"), softroce.Config{}))
	defer server.Close()
	client := must(softroce.Open(netip.MustParseAddr("127.0.0.2"), softroce.Config{}))
	defer client.Close()

	listener := must(server.Listen(netip.MustParseAddrPort("127.0.0.1:7174"), rdmacm.ListenConfig{}))
	go func() {
		c := must(client.Dial(ctx, netip.MustParseAddrPort("127.0.0.1:7174")))
		must(0, c.Send(ctx, []byte("Hello over RoCEv2")))
		must(0, c.Close()) // waits until the message has been acknowledged
	}()
	request := must(listener.Accept(ctx))
	c := must(request.Accept(ctx))
	fmt.Fprintf(out, "received %q\n", must(c.Recv(ctx)))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
