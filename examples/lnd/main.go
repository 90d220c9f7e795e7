// Command lnd moves data with LNet's protocol for InfiniBand and RoCE, which package lnd below implements.
//
//	go run ./examples/lnd serve                            # in one terminal, at 127.0.0.1: keeps what it is given
//	go run ./examples/lnd ping 127.0.0.1                   # in another, at 127.0.0.2
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
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"ciddk/accesslayer"
	"ciddk/accesslayer/rdmacm"
	"ciddk/examples/lnd/lnd"
	"ciddk/hca/reference"
)

type options struct {
	Do     string     `arg:"" enum:"serve,ping,put,get" help:"serve: keep objects for others, until interrupted. ping: see how long a peer takes. put, get: an object."`
	Peer   netip.Addr `arg:"" optional:"" help:"Whom to ask."`
	Object uint8      `arg:"" optional:"" help:"Number of the object."`
	File   string     `arg:"" optional:"" help:"What to put, 1 MiB at most."`

	Addr    netip.Addr    `placeholder:"IP" help:"IPv4 address of our adapter (serve: 127.0.0.1; else 127.0.0.2)."`
	Timeout time.Duration `default:"30s" help:"Give up after so long; serve does not."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lnd:", err)
		os.Exit(1)
	}
}

// command is the way up, and down again: adapter, access layer, connection manager, node.
func command(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	parser, err := kong.New(&o, kong.Name("lnd"), kong.Description("Move data with LNet's protocol for InfiniBand and RoCE."))
	if err != nil {
		return err
	}
	if _, err = parser.Parse(args); err != nil {
		return err
	}
	if !o.Addr.IsValid() {
		o.Addr = netip.MustParseAddr(map[bool]string{true: "127.0.0.1", false: "127.0.0.2"}[o.Do == "serve"])
	}
	hca, err := reference.New(reference.Config{Ports: []reference.PortConfig{reference.UDP(reference.UDPConfig{Addr: o.Addr})}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hca.Close()) }()
	al := accesslayer.New(accesslayer.Config{})
	defer func() { err = errors.Join(err, al.Close()) }()
	if err = al.Register(hca); err != nil {
		return err
	}
	m, err := rdmacm.Open(al)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var kept objects
	n, err := lnd.Listen(m, lnd.Config{Addr: o.Addr, OnPut: kept.put, OnGet: kept.get})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if o.Do == "serve" {
		fmt.Fprintln(out, "serving at", o.Addr)
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	c, err := n.Dial(ctx, o.Peer)
	if err != nil {
		return err
	}
	return o.ask(ctx, c, out)
}

// ask is a client.
func (o *options) ask(ctx context.Context, c *lnd.Conn, out io.Writer) (err error) {
	start, at, data, size := time.Now(), lnd.Address{Match: uint64(o.Object)}, make([]byte, lnd.MaxTransfer), 0
	switch o.Do {
	case "put":
		if data, err = os.ReadFile(o.File); err == nil {
			size, err = c.Put(ctx, at, data)
		}
	case "get":
		if size, err = c.Get(ctx, at, data); err == nil {
			_, err = out.Write(data[:size])
		}
		return err
	default:
		at.Portal = pingPortal
		size, err = c.Get(ctx, at, data[:64])
	}
	if err == nil {
		fmt.Fprintf(out, "%d bytes in %v\n", size, time.Since(start).Round(time.Microsecond))
	}
	return err
}

const pingPortal = 1 // where anybody gets an answer; objects are at portal 0

// objects is what a server keeps: 1 MiB each, at most.
type objects struct {
	mu  sync.Mutex
	all [256][]byte
}

// put gives each write memory of its own: nobody reads an object that is half written.
func (o *objects) put(r lnd.Request) ([]byte, func(int, error)) {
	if r.At.Portal != 0 || r.At.Offset != 0 || r.At.Match >= uint64(len(o.all)) {
		return nil, func(int, error) {}
	}
	b := make([]byte, r.Length)
	return b, func(n int, err error) {
		if o.mu.Lock(); err == nil {
			o.all[r.At.Match] = b[:n]
		}
		o.mu.Unlock()
	}
}

func (o *objects) get(r lnd.Request) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case r.At.Portal == pingPortal:
		return make([]byte, 64)
	case r.At.Portal != 0 || r.At.Offset != 0 || r.At.Match >= uint64(len(o.all)):
		return nil
	}
	return o.all[r.At.Match]
}
