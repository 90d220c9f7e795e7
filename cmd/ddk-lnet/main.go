// Command ddk-lnet is a node of an LNet on a network o2ib: a peer for machines with Lustre, without a kernel module.
//
//	ddk-lnet ping 10.0.0.1@o2ib                # as lctl ping
//	ddk-lnet ping --discover 10.0.0.1@o2ib     # and tells the peer which interfaces this node has
//	ddk-lnet serve --addr 10.0.0.2             # answers pings and discovery, until SIGTERM or SIGINT
//	ddk-lnet selftest 10.0.0.2@o2ib            # moves data to and from a peer that runs ddk-lnet serve
//
// The adapter is a software adapter on the address --addr, which speaks RoCEv2 from a UDP socket; with --daemon, it is
// the one of ddkd that has the address, and several nodes may share it. --tunable sets
// parameters by the names that they have in ko2iblnd, such as --tunable peer_credits=16. --stats prints what the node
// has counted.
//
// Exit status: 0 success, 1 an error, 2 usage.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"ciddk/accesslayer/rdmacm"
	"ciddk/internal/command"
	"ciddk/lnd"
	"ciddk/softroce"
	"ciddk/ual"
	"ciddk/ual/services"
)

// commands is the grammar of the command line.
type commands struct {
	options

	Ping     pingCmd     `cmd:"" help:"Print the interfaces of a node."`
	Serve    serveCmd    `cmd:"" help:"Answer peers until a signal."`
	Selftest selftestCmd `cmd:"" help:"Move data to and from a peer that runs ddk-lnet serve, and check them."`
}

// options are those of all commands.
type options struct {
	Addr    netip.Addr    `placeholder:"IP" help:"IPv4 address of the adapter. Default: the one that reaches the peer."`
	Daemon  string        `placeholder:"SOCKET" help:"Use the adapter of ddkd that has the address --addr."`
	Network uint16        `placeholder:"N" help:"Number of serve's network. Others: that of the peer."`
	Tunable []string      `placeholder:"NAME=VALUE" help:"Parameter of ko2iblnd."`
	Timeout time.Duration `default:"60s" help:"Time limit of ping and selftest."`
	Stats   bool          `help:"Print what the node has counted, at the end."`
}

// program is where commands write, and the options.
type program struct {
	ctx context.Context
	out io.Writer
	options
}

func main() { command.Main(run) }

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c commands
	p := command.Program{Name: "ddk-lnet", Grammar: &c, Out: out, Errs: errs}
	p.Description = "A node of an LNet on a network o2ib, without a kernel module."
	p.Bindings = func() []any { return []any{&program{ctx: ctx, out: out, options: c.options}} }
	return p.Run(args)
}

// withNode calls f with a node, and closes it.
func (p *program) withNode(network uint16, f func(*lnd.Node) error) (err error) {
	t := lnd.DefaultTunables()
	for _, text := range p.Tunable {
		if err := t.Set(text); err != nil {
			return err
		}
	}
	m, err := p.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return p.withManager(m, lnd.Config{Addr: p.Addr, Network: network, Tunables: &t}, f)
}

// open returns a connection manager for the adapter.
func (p *program) open() (*rdmacm.Manager, error) {
	if p.Daemon != "" {
		return services.Dial(services.Config{UAL: ual.Config{Path: p.Daemon, Name: "ddk-lnet"}})
	}
	return softroce.Open(p.Addr, softroce.Config{})
}

func (p *program) withManager(m *rdmacm.Manager, cfg lnd.Config, f func(*lnd.Node) error) error {
	n, err := lnd.Listen(m, cfg)
	if err != nil {
		return err
	}
	err = errors.Join(f(n), n.Close())
	if p.Stats {
		stats := n.Stats()
		for _, name := range slices.Sorted(maps.Keys(stats)) {
			fmt.Fprintf(p.out, "%8d %s\n", stats[name], name)
		}
	}
	return err
}

// withPeer is withNode for commands with a peer and a time limit.
func (p *program) withPeer(peer lnd.NID, f func(context.Context, *lnd.Node) error) error {
	if !p.Addr.IsValid() {
		// A UDP socket that is connected has the address from which the peer is reached. It sends nothing.
		var d net.Dialer
		c, err := d.DialContext(p.ctx, "udp4", netip.AddrPortFrom(peer.Addr(), 4791).String())
		if err != nil {
			return err
		}
		local, _ := c.LocalAddr().(*net.UDPAddr)
		p.Addr = local.AddrPort().Addr()
		_ = c.Close()
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.Timeout)
	defer cancel()
	return p.withNode(peer.Network(), func(n *lnd.Node) error { return f(ctx, n) })
}

type pingCmd struct {
	Peer     lnd.NID `arg:"" help:"Node, such as 10.0.0.1@o2ib."`
	Discover bool    `help:"Tell the node which interfaces this one has, as discovery does."`
}

// Run implements the command.
func (c *pingCmd) Run(p *program) error {
	return p.withPeer(c.Peer, func(ctx context.Context, n *lnd.Node) error {
		ask := n.Ping
		if c.Discover {
			ask = n.Discover
		}
		info, err := ask(ctx, c.Peer)
		for _, ni := range info.NIs {
			fmt.Fprintf(p.out, "%d-%v\n", info.PID, ni.NID) // as lctl ping
		}
		return err
	})
}

type serveCmd struct {
	Portal uint32 `default:"40" help:"Portal of the memory that selftest uses."`
	Memory int64  `default:"64" help:"MiB that peers may store; more is refused."`
}

// Run implements the command.
func (c *serveCmd) Run(p *program) error {
	if !p.Addr.IsValid() {
		return errors.New("serve: give the address of the adapter with --addr")
	}
	return p.withNode(p.Network, func(n *lnd.Node) error {
		s := &store{room: c.Memory << 20, data: map[uint64][]byte{}}
		n.Attach(lnd.Entry{Portal: c.Portal, Ignore: ^uint64(0), OnPut: s.put, OnGet: s.get})
		fmt.Fprintf(p.out, "serving as %v\n", n.NID())
		<-p.ctx.Done()
		return nil
	})
}

type selftestCmd struct {
	Peer        lnd.NID `arg:"" help:"Node that runs ddk-lnet serve."`
	Portal      uint32  `default:"40" help:"Portal of its memory."`
	Rounds      int     `default:"10" help:"Number of times that each size is moved."`
	Concurrency int     `default:"8" help:"Transfers in progress."`
}

// sizes are those of the blocks of selftest, around the bounds of what a message holds and of a transfer.
var sizes = []int{1, 100, 3975, 3976, 3977, 4096, 65537, lnd.MaxTransfer - 1, lnd.MaxTransfer}

// Run implements the command.
func (c *selftestCmd) Run(p *program) error {
	return p.withPeer(c.Peer, func(ctx context.Context, n *lnd.Node) error {
		if _, err := n.Discover(ctx, c.Peer); err != nil {
			return err
		}
		begun := time.Now()
		moved, err := selftest{Node: n, peer: c.Peer, portal: c.Portal}.run(ctx, c.Rounds, max(1, c.Concurrency))
		took := time.Since(begun)
		fmt.Fprintf(p.out, "%d bytes moved and checked in %v, %.0f MB/s\n", moved, took.Round(time.Millisecond),
			float64(moved)/1e6/cmp.Or(took.Seconds(), 1))
		return err
	})
}
