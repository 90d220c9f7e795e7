// Command rping is the rping of librdmacm on the reference HCA. It connects by IP address with RDMA CM, and speaks the
// protocol of the original. Its peer can therefore be the original, on Linux with any adapter for RoCEv2:
//
//	rping -s -a 127.0.0.1 -v                         # server
//	rping -c -a 127.0.0.1 -I 127.0.0.2 -C 10 -v -V   # client, in another terminal
//	rping -c -a 10.77.0.1 -C 10 -v -V                # or Linux as the client of "rping -s -a 10.77.0.1"
//
// In each ping the client advertises a buffer, and the server reads it with RDMA READ and sends a message. Then the
// client advertises a second buffer, and the server writes the data into it with RDMA WRITE and sends a message.
//
// The server sends messages for which the client must have posted a receive, as the original expects. The program
// therefore posts and polls by itself, with the IDs of package rdmacm.
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
)

// options holds the command line: the options of the original that apply here, and some with long names only.
type options struct {
	Server bool `short:"s" xor:"role" required:"" help:"Be the server."`
	Client bool `short:"c" xor:"role" required:"" help:"Be the client."`

	Addr    netip.Addr    `short:"a" required:"" help:"Server: IP address of the HCA. Client: IP address of the server."`
	From    netip.Addr    `short:"I" placeholder:"ADDR" help:"Client: IP address of the HCA. Default: the address from which the operating system would send."`
	Port    uint16        `short:"p" default:"7174" help:"Port number of the server, in port space TCP."`
	Size    int           `short:"S" default:"64" help:"Bytes of a ping."`
	Count   int           `short:"C" default:"0" help:"Number of pings before this side disconnects; 0: no limit."`
	Persist bool          `short:"P" help:"Server: serve any number of clients, also at the same time."`
	Verbose bool          `short:"v" help:"Print the data."`
	Check   bool          `short:"V" help:"Client: check that the data come back unchanged."`
	Debug   bool          `short:"d" help:"Print every step."`
	Timeout time.Duration `default:"30s" help:"Time limit without progress. A server waits for clients without limit."`
}

// Limits of the original: the text of the longest ping number, and its buffer less one byte.
const (
	minSize = len("2147483647\x00") + len("rdma-ping-%d: \x00")
	maxSize = bufferLen - 1
)

func (o *options) validate() error {
	o.Addr = o.Addr.Unmap()
	o.From = o.From.Unmap()
	switch {
	case o.Size < minSize || o.Size > maxSize:
		return fmt.Errorf("-S %d: want %d to %d bytes", o.Size, minSize, maxSize)
	case o.Count < 0:
		return fmt.Errorf("-C %d: want 0 or more", o.Count)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %v: want a positive duration", o.Timeout)
	case o.Client && o.Port == 0:
		return errors.New("-p 0: give the port of the server")
	case o.Client && o.Addr.IsMulticast():
		return fmt.Errorf("-a %v: give a unicast address", o.Addr)
	case o.Addr.IsUnspecified():
		return fmt.Errorf("-a %v: give the address of one HCA", o.Addr)
	case o.Server && o.From.IsValid():
		return errors.New("-I is an option of clients: the HCA of a server has the address of -a")
	case o.From.IsValid() && o.From.Is4() != o.Addr.Is4():
		return fmt.Errorf("-I %v and -a %v are of different IP versions", o.From, o.Addr)
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rping:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	var o options
	parser, err := kong.New(&o, kong.Name("rping"), kong.Description("librdmacm's rping on the reference HCA."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return err
	}
	if err := o.validate(); err != nil {
		return err
	}
	return run(ctx, o, &printer{w: out, debugging: o.Debug})
}

// run opens the HCA, runs the client or the server, and closes the HCA.
func run(ctx context.Context, o options, out *printer) (err error) {
	m, err := open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if o.Server {
		return serve(ctx, m, o, out)
	}
	return ping(ctx, m, o, out)
}

// A printer prints for several goroutines.
type printer struct {
	mu        sync.Mutex
	w         io.Writer
	debugging bool
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format, args...)
}

func (p *printer) debugf(format string, args ...any) {
	if p.debugging {
		p.printf(format, args...)
	}
}
