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
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"ciddk/examples/lnd/lnd"
	"ciddk/softroce"
)

type options struct {
	Do     string     `arg:"" enum:"serve,ping,put,get" help:"serve: keep objects for others, until interrupted. ping: see how long a peer takes. put, get: an object."`
	Peer   netip.Addr `arg:"" optional:"" help:"Whom to ask."`
	Object uint8      `arg:"" optional:"" help:"Number of the object, 0 to 255."`
	File   string     `arg:"" optional:"" help:"What to put, 1 MiB at most."`

	Addr    netip.Addr    `placeholder:"IP" help:"IPv4 address of our adapter (serve: 127.0.0.1; else 127.0.0.2)."`
	Timeout time.Duration `default:"30s" help:"Give up after so long; serve does not."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lnd:", strings.TrimPrefix(err.Error(), "lnd: "))
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
	switch {
	case o.Do != "serve" && !o.Peer.IsValid():
		return fmt.Errorf("%s whom? Give the address of a peer that serves: lnd %s PEER", o.Do, o.Do)
	case o.Do == "put" && o.File == "":
		return errors.New("put what? lnd put PEER OBJECT FILE, where OBJECT is 0 to 255")
	}
	if !o.Addr.IsValid() {
		o.Addr = netip.MustParseAddr(map[bool]string{true: "127.0.0.1", false: "127.0.0.2"}[o.Do == "serve"])
	}
	m, err := softroce.Open(o.Addr, softroce.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	var kept objects
	kept.Store(uint64(pingObject), make([]byte, 64))
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
	start, data, size := time.Now(), make([]byte, lnd.MaxTransfer), 0
	switch o.Do {
	case "put":
		if data, err = contents(o.File); err == nil {
			size, err = c.Put(ctx, uint64(o.Object), data)
		}
	case "get":
		if size, err = c.Get(ctx, uint64(o.Object), data); err == nil {
			_, err = out.Write(data[:size])
		}
		return err
	default:
		size, err = c.Get(ctx, pingObject, data)
	}
	if err == nil {
		fmt.Fprintf(out, "%d bytes in %v\n", size, time.Since(start).Round(time.Microsecond))
	}
	return err
}

// contents reads a file that can be put.
func contents(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, lnd.MaxTransfer+1)) // it may have no end
	if err == nil && len(data) > lnd.MaxTransfer {
		err = fmt.Errorf("%s has more than the %d bytes of a transfer", name, lnd.MaxTransfer)
	}
	return data, err
}

const pingObject = 256 // anybody may read it; those that may be written are below

// objects is what a server keeps, by number: 1 MiB each, at most.
type objects struct{ sync.Map }

// put gives each write memory of its own: nobody reads an object that is half written.
func (o *objects) put(_ netip.Addr, object uint64, n int) ([]byte, func(int, error)) {
	if object >= pingObject {
		return nil, func(int, error) {}
	}
	b := make([]byte, n)
	return b, func(n int, err error) {
		if err == nil {
			o.Store(object, b[:n])
		}
	}
}

func (o *objects) get(_ netip.Addr, object uint64, _ int) []byte {
	b, _ := o.Load(object)
	data, _ := b.([]byte)
	return data
}
