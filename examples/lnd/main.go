// Command lnd moves data with LNet's protocol for InfiniBand and RoCE, which package lnd below implements: as an example of what an upper
// protocol on the access layer looks like, and of how a program uses one.
//
//	go run ./examples/lnd serve                            # in one terminal: 127.0.0.1@o2ib keeps what it is given
//	go run ./examples/lnd ping 127.0.0.1                   # in another: 127.0.0.2@o2ib
//	go run ./examples/lnd put 127.0.0.1 1 /etc/services    # as object 1
//	go run ./examples/lnd get 127.0.0.1 1                  # to standard output
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

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/examples/lnd/lnd"
	"ciddk/hca/reference"
)

type options struct {
	Serve serveCmd `cmd:"" help:"Keep objects for others, until interrupted."`
	Put   putCmd   `cmd:"" help:"Write an object."`
	Get   getCmd   `cmd:"" help:"Read an object."`
	Ping  pingCmd  `cmd:"" help:"See how long a peer takes to answer, and what it says of itself."`

	Addr     netip.Addr    `placeholder:"IP" help:"IPv4 address of our adapter (serve: 127.0.0.1; else 127.0.0.2)."`
	Port     uint16        `default:"987" help:"Port of all nodes, in the RDMA CM's port space TCP."`
	Depth    int           `default:"8" help:"Messages under way to a peer, 2 to 255."`
	Checksum bool          `help:"Put a checksum in every message."`
	Timeout  time.Duration `default:"30s" help:"Give up after so long; serve does not."`
}

type serveCmd struct {
	Room int `default:"256" help:"MiB that objects may take in all."`
}

type putCmd struct {
	Peer   netip.Addr `arg:"" help:"The node that keeps it."`
	Object uint64     `arg:"" help:"Its number: the match bits."`
	File   string     `arg:"" optional:"" help:"What to write; without it, standard input."`
}

type getCmd struct {
	Peer   netip.Addr `arg:"" help:"The node that keeps it."`
	Object uint64     `arg:"" help:"Its number: the match bits."`
}

type pingCmd struct {
	Peer  netip.Addr `arg:"" help:"Whom to ask."`
	Count int        `short:"c" default:"4" help:"How often."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lnd:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("lnd"), kong.Description("Move data with LNet's protocol for InfiniBand and RoCE."))
	if err != nil {
		return err
	}
	k, err := parser.Parse(args)
	if err != nil {
		return err
	}
	if o.Timeout <= 0 {
		return fmt.Errorf("--timeout %v: must be positive", o.Timeout)
	}
	if o.Serve.Room < 0 {
		return fmt.Errorf("--room %d: must not be negative", o.Serve.Room)
	}
	if o.Ping.Count < 1 && k.Command() == "ping <peer>" {
		return fmt.Errorf("-c %d: must be positive", o.Ping.Count)
	}
	serving := k.Command() == "serve"
	if !o.Addr.IsValid() {
		o.Addr = netip.MustParseAddr("127.0.0.2")
		if serving {
			o.Addr = netip.MustParseAddr("127.0.0.1")
		}
	}
	if !serving {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	return o.withNode(func(n *lnd.Node) error {
		switch {
		case serving:
			fmt.Fprintf(out, "serving as %v\n", n.NID())
			<-ctx.Done()
			return nil
		case k.Command() == "get <peer> <object>":
			return get(ctx, n, o.Get, out)
		case k.Command() == "ping <peer>":
			return ping(ctx, n, o.Ping, out)
		}
		if o.Put.File != "" {
			f, err := os.Open(o.Put.File)
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		return put(ctx, n, o.Put, in, out)
	})
}

// withNode is the way up, and down again: adapter, access layer, connection manager, node.
func (o *options) withNode(use func(*lnd.Node) error) (err error) {
	nid, err := lnd.NIDOf(0, o.Addr)
	if err != nil {
		return err
	}
	objects := newObjects(nid, o.Serve.Room<<20)
	hca, err := reference.New(reference.Config{Ports: []reference.PortConfig{reference.UDP(reference.UDPConfig{Addr: o.Addr})}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hca.Close()) }()
	al := accesslayer.New(accesslayer.Config{})
	defer func() { err = errors.Join(err, al.Close()) }()
	if err := al.Register(hca); err != nil {
		return err
	}
	m, err := rdmacm.Open(al)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	n, err := lnd.Listen(m, lnd.Config{Addr: o.Addr, Port: o.Port, Depth: o.Depth, Checksum: o.Checksum, Timeout: o.Timeout,
		OnPut: objects.put, OnGet: objects.get})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return use(n)
}

// portal is where objects are.
const portal = 42

// put writes an object, as many bytes at a time as a transfer takes.
func put(ctx context.Context, n *lnd.Node, o putCmd, in io.Reader, out io.Writer) error {
	start, total := time.Now(), 0
	for buf, last := make([]byte, lnd.MaxTransfer), false; !last; {
		k, err := io.ReadFull(in, buf)
		last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return err
		}
		if k == 0 && total > 0 {
			break
		}
		if err := n.Put(ctx, o.Peer, lnd.Address{Portal: portal, Match: o.Object, Offset: uint32(total)}, buf[:k]); err != nil {
			return err
		}
		total += k
	}
	fmt.Fprintf(out, "%d bytes in %v\n", total, time.Since(start).Round(time.Microsecond))
	return nil
}

// get reads an object: up to a transfer that brings less than was asked for.
func get(ctx context.Context, n *lnd.Node, o getCmd, out io.Writer) error {
	buf := make([]byte, lnd.MaxTransfer)
	for total := 0; ; {
		k, err := n.Get(ctx, o.Peer, lnd.Address{Portal: portal, Match: o.Object, Offset: uint32(total)}, buf)
		if err != nil {
			return err
		}
		if _, err := out.Write(buf[:k]); err != nil {
			return err
		}
		if total += k; k < len(buf) {
			return nil
		}
	}
}
