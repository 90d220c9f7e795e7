// Command rping is librdmacm's rping on the reference HCA, found by IP address and connected by RDMA CM. It speaks that program's protocol, so
// that the peer may be it, on Linux with any adapter that speaks RoCEv2:
//
//	rping -s -a 127.0.0.1 -v                         # server
//	rping -c -a 127.0.0.1 -I 127.0.0.2 -C 10 -v -V   # client, in another terminal
//	rping -c -a 10.77.0.1 -C 10 -v -V                # or Linux as the client of "rping -s -a 10.77.0.1"
//
// In each ping the client advertises a buffer, the server reads it by RDMA READ and says so, the client advertises another one, and the server
// writes the data there by RDMA WRITE and says so.
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

// options are those of the original, where they make sense here, and the long ones.
type options struct {
	Server bool `short:"s" xor:"role" required:"" help:"Be the server."`
	Client bool `short:"c" xor:"role" required:"" help:"Be the client."`

	Addr    netip.Addr    `short:"a" required:"" help:"The server's IP address: of the HCA here (server), or of the peer (client)."`
	From    netip.Addr    `short:"I" placeholder:"ADDR" help:"IP address of the HCA of a client; if left out, that from which the operating system would send."`
	Port    uint16        `short:"p" default:"7174" help:"Port of port space TCP."`
	Size    int           `short:"S" default:"64" help:"Bytes of a ping."`
	Count   int           `short:"C" default:"0" help:"Pings, after which this side disconnects; 0: without end."`
	Persist bool          `short:"P" help:"Server: take any number of clients, at the same time too."`
	Verbose bool          `short:"v" help:"Print the data."`
	Check   bool          `short:"V" help:"Client: check that the data come back as they were sent."`
	Debug   bool          `short:"d" help:"Print every step."`
	Timeout time.Duration `default:"30s" help:"Give up after so long without progress. A server waits for clients without end."`
}

// Sizes that the original takes: from the text of the longest ping number to its buffer less one byte.
const (
	minSize = len("2147483647\x00") + len("rdma-ping-%d: \x00")
	maxSize = bufferLen - 1
)

func (o *options) validate() error {
	o.Addr = o.Addr.Unmap()
	o.From = o.From.Unmap()
	switch {
	case o.Size < minSize || o.Size > maxSize:
		return fmt.Errorf("-S %d: %d to %d bytes", o.Size, minSize, maxSize)
	case o.Count < 0:
		return fmt.Errorf("-C %d: must not be negative", o.Count)
	case o.Timeout <= 0:
		return fmt.Errorf("--timeout %v: must be positive", o.Timeout)
	case o.Client && o.Port == 0:
		return errors.New("-p 0: a client has to know the server's port")
	case o.Client && o.Addr.IsMulticast():
		return fmt.Errorf("-a %v: connections are to one machine, this is a group", o.Addr)
	case o.Addr.IsUnspecified():
		return fmt.Errorf("-a %v: an address of an HCA is needed, the HCA is made for it", o.Addr)
	case o.Server && o.From.IsValid():
		return fmt.Errorf("-I is for clients: the server's HCA is that of -a")
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

// run is one program from opening the HCA to closing it.
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

// printer is for several goroutines.
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
