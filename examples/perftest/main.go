// Command perftest implements the programs of perftest on the reference HCA: ib_send_bw, ib_send_lat, ib_write_bw,
// ib_write_lat, ib_read_bw, ib_read_lat, ib_atomic_bw and ib_atomic_lat, in either role. It has their protocol (package
// exchange) and their options. Its peer can be one of them, on Linux with any adapter for RoCEv2, or this program:
//
//	perftest send_bw                                   # server, 127.0.0.1
//	perftest send_bw -d 127.0.0.2 127.0.0.1            # client, in another terminal
//	perftest write_lat -d 10.77.0.1                    # or with Linux as the client:
//	ib_write_lat -d rxe0 10.77.0.1                     #
//	ib_read_bw -d rxe0 -R                              # or as the server, over RDMA CM:
//	perftest read_bw -d 10.77.0.1 -R 10.77.0.2         #
//
// As with the originals, both sides need the same test and options. The program reports a difference that the protocol
// shows: an unexpected queue pair or message length, another size or count in the results.
//
// The queue pairs are those of package ci and package accesslayer, or of cmid.ID with -R, because the tests set their
// depths, signaling and inline sizes. A measurement posts and polls by itself.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "perftest:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("perftest"),
		kong.Description("The programs of perftest on the reference HCA. Without HOST, be the server."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	if err := o.complete(); err != nil {
		return err
	}
	return run(ctx, &o, out)
}
