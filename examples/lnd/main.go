// Command lnd is the lesson of package lnd, an upper protocol: it stores objects on another node of an LNet, and reads
// them. Command ddk-lnet has what operators need.
//
//	go run ./examples/lnd serve                            # in one terminal: stores objects, and prints its address
//	go run ./examples/lnd ping 127.0.0.1                   # in another
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

	"ciddk/accesslayer/rdmacm"
	"ciddk/examples/internal/loopback"
	"ciddk/lnd"
	"ciddk/softroce"
)

type options struct {
	Do     string     `arg:"" enum:"serve,ping,put,get" help:"Store objects, or ask a peer that does."`
	Peer   netip.Addr `arg:"" optional:"" help:"IPv4 address of the server."`
	Object uint8      `arg:"" optional:"" help:"Number of the object, 0 to 255."`
	File   string     `arg:"" optional:"" help:"File to put, at most 1 MiB."`

	Addr    netip.Addr    `placeholder:"IP" help:"IPv4 address of the adapter. Default: a free loopback address."`
	Timeout time.Duration `default:"30s" help:"Time limit of ping, put and get."`
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

// command opens an adapter with a connection manager and a node, runs the command, and closes everything.
func command(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	parser, err := kong.New(&o, kong.Name("lnd"), kong.Description("Move data with LNet's protocol for InfiniBand "+
		"and RoCE."))
	if err != nil {
		return err
	}
	if _, err = parser.Parse(args); err != nil {
		return err
	}
	switch {
	case o.Do != "serve" && !o.Peer.IsValid():
		return fmt.Errorf("%s: give the address of a server: lnd %s PEER", o.Do, o.Do)
	case o.Do == "put" && o.File == "":
		return errors.New("put: give a file: lnd put PEER OBJECT FILE, where OBJECT is 0 to 255")
	}
	first := loopback.Second
	if o.Do == "serve" {
		first = loopback.First
	}
	m, addr, err := loopback.Open(o.Addr, first, func(a netip.Addr) (*rdmacm.Manager, error) {
		return softroce.Open(a, softroce.Config{})
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	n, err := lnd.Listen(m, lnd.Config{Addr: addr})
	if err != nil {
		return err
	}
	var kept objects
	n.Attach(lnd.Entry{Portal: portal, Ignore: objectBits, OnPut: kept.put, OnGet: kept.get})
	defer func() { err = errors.Join(err, n.Close()) }()
	if o.Do == "serve" {
		fmt.Fprintln(out, "serving at", addr)
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	peer, err := lnd.NIDOf(o.Peer, 0)
	if err != nil {
		return err
	}
	return o.transfer(ctx, n, peer, out)
}

// transfer carries out the command of a client.
func (o *options) transfer(ctx context.Context, n *lnd.Node, peer lnd.NID, out io.Writer) (err error) {
	target := lnd.Target{Portal: portal, Match: uint64(o.Object)}
	start, data, size := time.Now(), make([]byte, lnd.MaxTransfer), 0
	switch o.Do {
	case "put":
		if data, err = contents(o.File); err == nil {
			size, err = n.Put(ctx, peer, target, data)
		}
	case "get":
		if size, err = n.Get(ctx, peer, target, data); err == nil {
			_, err = out.Write(data[:size])
		}
		return err
	default:
		var info lnd.PingInfo
		if info, err = n.Ping(ctx, peer); err == nil {
			fmt.Fprintf(out, "%v answers in %v\n", info.NIs, time.Since(start).Round(time.Microsecond))
		}
		return err
	}
	if err == nil {
		fmt.Fprintf(out, "%d bytes in %v\n", size, time.Since(start).Round(time.Microsecond))
	}
	return err
}

// contents returns the contents of a file of at most lnd.MaxTransfer bytes.
func contents(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, lnd.MaxTransfer+1)) // the file may be endless, such as /dev/zero
	if err == nil && len(data) > lnd.MaxTransfer {
		err = fmt.Errorf("%s has more than the %d bytes of a transfer", name, lnd.MaxTransfer)
	}
	return data, err
}

// The match entry of the objects: their portal, and the bits that number them.
const (
	portal     = 40
	objectBits = 0xff
)

// objects holds the objects of a server by number, each of at most 1 MiB.
type objects struct{ sync.Map }

// put returns new memory for each write, so that no peer reads an object that is partly written.
func (o *objects) put(r lnd.Request) ([]byte, func(int, error)) {
	b := make([]byte, r.Len)
	return b, func(n int, err error) {
		if err == nil {
			o.Store(r.Match, b[:n])
		}
	}
}

func (o *objects) get(r lnd.Request) []byte {
	b, _ := o.Load(r.Match)
	data, _ := b.([]byte)
	return data
}
