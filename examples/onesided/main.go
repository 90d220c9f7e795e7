// Command onesided is the program to read after examples/first. Two processes move data over UDP, by messages and by
// one-sided RDMA:
//
//	go run ./examples/onesided serve       # in one terminal: an adapter of a free loopback address, which it prints
//	go run ./examples/onesided call        # in another: --server ADDRESS if that is not 127.0.0.1
//
// The server sends a description of its memory. The caller writes into that memory and reads it back, without the
// server's program taking part, and then sends a message to say that it is done.
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
	"time"

	"github.com/alecthomas/kong"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/examples/internal/loopback"
	"ciddk/softroce"
)

type options struct {
	Role    string        `arg:"" enum:"serve,call" help:"serve: wait for a caller. call: write, read and send."`
	Server  netip.Addr    `placeholder:"IP" help:"Address of the server. Default: a free one; for call 127.0.0.1."`
	Caller  netip.Addr    `placeholder:"IP" help:"IP address of the caller. Default: a free loopback address."`
	Port    uint16        `default:"18516" help:"RDMA CM port of the server."`
	Timeout time.Duration `default:"1m" help:"Time limit of the program."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "onesided:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("onesided"), kong.Description("Two processes move data over UDP."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return run(ctx, o, out)
}

func run(ctx context.Context, o options, out io.Writer) (err error) {
	local, first, work := o.Server, loopback.First, serve
	if o.Role == "call" {
		local, first, work = o.Caller, loopback.Second, call
	}
	m, local, err := loopback.Open(local, first, func(a netip.Addr) (*rdmacm.Manager, error) {
		return softroce.Open(a, softroce.Config{}) // the line that names a driver: everything else works on any adapter
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if !o.Server.IsValid() {
		o.Server = loopback.First
		if o.Role == "serve" {
			o.Server = local
		}
	}
	return work(ctx, m, netip.AddrPortFrom(o.Server, o.Port), out)
}

// memoryLen is the length of the server's memory in bytes.
const memoryLen = 4096

// serve serves one caller.
func serve(ctx context.Context, m *rdmacm.Manager, at netip.AddrPort, out io.Writer) error {
	ln, err := m.Listen(at, rdmacm.ListenConfig{})
	if err != nil {
		return err
	}
	defer ln.Close()
	fmt.Fprintln(out, "waiting for a caller at", at)
	request, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	c, err := request.Accept(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	b := make([]byte, memoryLen)
	memory := m.NewMemory(ci.Bytes(b), ci.RemoteRead|ci.RemoteWrite)
	defer memory.Close()
	region, err := memory.Region(c)
	if err != nil {
		return err
	}
	description, err := region.MarshalBinary()
	if err != nil {
		return err
	}
	if err := c.Send(ctx, description); err != nil {
		return err
	}
	message, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "received: %s\n", message)
	// The caller's message came after its write was complete, so all of the text is in memory.
	text, _, _ := strings.Cut(string(b), "\x00")
	fmt.Fprintf(out, "in my memory: %s\n", text)
	return nil
}

// call writes to the server's memory, reads it back and sends a message.
func call(ctx context.Context, m *rdmacm.Manager, server netip.AddrPort, out io.Writer) (err error) {
	c, err := m.Dial(ctx, server)
	if err != nil {
		return fmt.Errorf("is the server running? --server sets its address: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }() // waits until the message is acknowledged
	description, err := c.Recv(ctx)
	if err != nil {
		return err
	}
	var region rdmacm.Region
	if err := region.UnmarshalBinary(description); err != nil {
		return err
	}
	text := []byte("written by the caller")
	if err := c.Write(ctx, region, text); err != nil {
		return err
	}
	clear(text)
	if err := c.Read(ctx, text, region); err != nil {
		return err
	}
	fmt.Fprintf(out, "read back: %s\n", text)
	return c.Send(ctx, []byte("look at your memory"))
}
