// Command pingpong is ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong on the reference HCA. It
// exchanges addresses in their protocol over TCP. Its peer can therefore be one of these programs, on Linux with any
// adapter for RoCEv2:
//
//	pingpong rc                                                  # server, which prints its address
//	pingpong rc 127.0.0.1                                        # client, in another terminal
//	ibv_rc_pingpong -g 1 10.77.0.1                               # a client on Linux of "pingpong rc -d 10.77.0.1"
//	pingpong rc -c -d 10.77.0.1 --impair 2% --seed 7 10.77.0.2   # this side impairs the link
//
// The client sends a message, the server sends one back, and so on. As with the originals, both sides need the same
// mode, message size and number of exchanges, and with rc, uc and srq the same path MTU.
//
// The program uses verbs directly, because the protocol of the originals leaves no room for a connection manager. See
// examples/onesided for a program that connects with package rdmacm.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"github.com/alecthomas/kong"
)

// options holds the command line: the options of the originals that apply here, and some with long names only.
type options struct {
	Mode string `arg:"" enum:"rc,uc,ud,srq" help:"Service: rc, uc, ud, or srq (several RC QPs with one shared receive queue)."`
	Host string `arg:"" optional:"" help:"Server to connect to; without it, wait for a client."`

	Addr    netip.Addr    `short:"d" placeholder:"IP" help:"IP address, also of TCP. Default: a free loopback one."`
	Port    uint16        `short:"p" default:"18515" help:"TCP port of the server, for the exchange of addresses."`
	Size    int           `short:"s" default:"0" help:"Bytes per message (0: 4096; ud 1024)."`
	MTU     int           `short:"m" default:"1024" help:"Path MTU: 256, 512, 1024, 2048 or 4096; ud takes the port's."`
	RxDepth int           `short:"r" default:"500" help:"Number of receives to post at a time."`
	Iters   int           `short:"n" default:"1000" help:"Number of exchanges."`
	QPs     int           `short:"q" name:"num-qp" default:"16" help:"QPs in mode srq."`
	Events  bool          `short:"e" help:"Sleep on completion events instead of polling."`
	Check   bool          `short:"c" help:"Check the data. The client fills each message anew and compares what comes back."`
	GID     int           `short:"g" hidden:"" help:"Ignored, for scripts: the GID is that of --addr."`
	Timeout time.Duration `default:"30s" help:"Time limit without progress."`
	Impair  share         `default:"0" placeholder:"2%" help:"Drop this share of the packets, duplicate as many, and reorder, delay and corrupt as many, in both directions (rc only, up to 10%)."`
	Seed    uint64        `default:"1" help:"Seed of --impair."`

	Sources int  `default:"1" help:"Number of UDP source ports; each QP uses one."`
	Strict  bool `help:"Drop packets whose UDP source port is not the peer's."`

	Privileged bool `help:"Receive IPv4 headers, to check the whole ICRC (Linux; needs CAP_NET_RAW)."`
}

// maxQPs is the limit of the original in mode srq.
const maxQPs = 256

func (o *options) validate() error {
	if o.Size == 0 {
		o.Size = 4096
		if o.Mode == "ud" {
			o.Size = 1024
		}
	}
	if o.Mode != "srq" {
		o.QPs = 1
	}
	o.Addr = o.Addr.Unmap()
	switch {
	case o.Size < 1 || o.Size > 1<<30:
		return fmt.Errorf("-s %d: want 1 byte to 1 GiB", o.Size)
	case o.Iters < 1:
		return fmt.Errorf("-n %d: want at least one exchange", o.Iters)
	case o.RxDepth < 1:
		return fmt.Errorf("-r %d: want at least one receive", o.RxDepth)
	case o.QPs < 1 || o.QPs > min(maxQPs, o.RxDepth):
		return fmt.Errorf("-q %d: want 1 to %d, and at most -r (%d), because each QP may have a message in flight",
			o.QPs, maxQPs, o.RxDepth)
	case mtuCode(o.MTU) == 0:
		return fmt.Errorf("-m %d: want a path MTU of 256, 512, 1024, 2048 or 4096", o.MTU)
	case o.Impair > 0 && o.Mode == "srq":
		return fmt.Errorf("--impair with srq is not supported: with several QPs, a side cannot find out when its " +
			"peer has finished; use rc")
	case o.Impair > 0 && o.Mode != "rc":
		return fmt.Errorf("--impair with %s is not supported: the service does not retransmit lost messages; use rc",
			o.Mode)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %v: want a positive duration", o.Timeout)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("pingpong"),
		kong.Description("The ibv_*_pingpong programs on the reference HCA. Without HOST, be the server."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	return run(ctx, o, out)
}

// run opens the HCA, plays, and closes the HCA.
func run(ctx context.Context, o options, out io.Writer) (err error) {
	i := &impairment{}
	hca, err := openHCA(&o, i)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hca.Close()) }()
	e, err := newEndpoint(hca, o, i)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()

	if err := e.connectPeer(ctx, out); err != nil {
		return err
	}
	start := time.Now()
	if err := e.exchange(ctx); err != nil {
		return err
	}
	seconds := time.Since(start).Seconds()
	if o.Impair > 0 {
		i.report(out, hca.Counters())
	}
	bytes := float64(o.Size) * float64(o.Iters) * 2
	fmt.Fprintf(out, "%.0f bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, seconds, bytes*8/1e6/seconds)
	fmt.Fprintf(out, "%d iters in %.2f seconds = %.2f usec/iter\n", o.Iters, seconds, seconds*1e6/float64(o.Iters))
	return nil
}
