// Command cmpeer is a peer on the reference HCA for programs of librdmacm in tests: ucmatose (connections), udaddy
// (datagrams by SIDR) and mckey (multicast). It implements their behavior, and also checks the length of every message.
//
//	cmpeer connect 10.77.0.1 -c 3                  # ucmatose's server
//	cmpeer connect 10.77.0.1 -s 10.77.0.2 -c 3     # its client
//	cmpeer connect 10.77.0.1 --first --one-way     # rdma_xserver
//	cmpeer datagram 10.77.0.1                      # udaddy
//	cmpeer group 10.77.0.1 -m 239.1.2.3            # mckey, receiving
//	cmpeer forget 10.77.0.1 -s 10.77.0.2           # a client of ucmatose that loses its state
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
	"ciddk/hca/reference"
	"ciddk/link/udp"
	"ciddk/rvt"
)

type options struct {
	Mode   string     `arg:"" enum:"connect,datagram,group,forget" help:"Peer of ucmatose, udaddy or mckey."`
	Addr   netip.Addr `arg:"" help:"IP address of the HCA."`
	Peer   netip.Addr `short:"s" help:"Server to call; without it, be the server."`
	Group  netip.Addr `short:"m" help:"Mode group: the group."`
	Send   bool       `help:"Mode group: send instead of receiving."`
	Conns  int        `short:"c" default:"1" help:"Connections."`
	Count  int        `short:"C" default:"10" help:"Messages of each."`
	Size   int        `short:"S" default:"100" help:"Bytes of a message."`
	IB     bool       `help:"Mode connect: port space IB."`
	First  bool       `help:"Mode connect: the client sends first, as rdma_client does; else the server, as ucmatose."`
	OneWay bool       `help:"Mode connect: only the first sender sends, as rdma_xclient and rdma_xserver expect."`
	No     bool       `help:"Mode connect: the server refuses."`

	Slow time.Duration `help:"Mode connect: the server takes so long to accept."`
}

// Default ports of the programs.
const (
	portConnect  = 7471
	portDatagram = 7174
)

// patience is the time limit of a run.
const patience = 40 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cmpeer:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	parser, err := kong.New(&o, kong.Name("cmpeer"))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	port, err := udp.New(udp.Config{Addr: o.Addr})
	if err != nil {
		return err
	}
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hca.Close()) }()
	al := accesslayer.New(accesslayer.Config{})
	defer func() { err = errors.Join(err, al.Close()) }()
	if err := al.Register(hca); err != nil {
		return err
	}
	if o.Mode == "forget" {
		return forget(ctx, al, o, out)
	}
	m, err := rdmacm.Open(al, rdmacm.OpenConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	switch o.Mode {
	case "connect":
		return connect(ctx, m, o, out)
	case "datagram":
		return datagram(ctx, m, o, out)
	}
	return group(ctx, m, o, out)
}
