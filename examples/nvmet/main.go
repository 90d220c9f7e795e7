// Command nvmet is an NVMe target over RDMA, on the software adapter. Package examples/nvmet/nvmet implements it.
//
//	nvmet --addr 10.0.0.1 --size 1GiB               # here: a disk in memory
//	nvmet --addr 10.0.0.1 --file disk.img           # or in a file
//	nvmet --addr 10.0.0.1 --daemon /run/ddkd/socket # or with an adapter of the daemon
//
//	modprobe nvme-rdma                              # on Linux, with any adapter for RoCEv2
//	nvme discover -t rdma -a 10.0.0.1 -s 4420
//	nvme connect -t rdma -a 10.0.0.1 -s 4420 -n nqn.2024-01.example:disk
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"ciddk/accesslayer/rdmacm"
	"ciddk/examples/internal/loopback"
	"ciddk/examples/nvmet/nvmet"
	"ciddk/hca/reference"
	"ciddk/link/impair"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/softroce"
	"ciddk/ual"
	"ciddk/ual/services"
)

type options struct {
	Addr   netip.Addr `placeholder:"IP" help:"IP address of the adapter. Default: a free loopback address."`
	Port   uint16     `default:"4420" help:"Port in port space TCP."`
	NQN    string     `name:"nqn" default:"nqn.2024-01.example:disk" help:"Name of the subsystem."`
	Size   size       `default:"64MiB" help:"Size of a disk in memory, or of a new file."`
	File   string     `help:"File with the blocks of the disk; it is created if it does not exist. Default: memory."`
	Queues int        `default:"8" help:"I/O queues of a host, at most."`
	Memory size       `default:"256MiB" help:"Memory that all hosts together can make the target hold."`
	Daemon string     `placeholder:"SOCKET" help:"Use adapters of a daemon; --addr is an address of one."`
	Drop   float64    `default:"0" placeholder:"0.01" help:"Share of packets to drop in both directions, for tests."`
}

// size is a number of bytes on the command line, such as 64MiB.
type size int64

// UnmarshalText parses a size.
func (s *size) UnmarshalText(b []byte) error {
	digits, shift := string(b), 0
	for i, unit := range []string{"KiB", "MiB", "GiB"} {
		if d, ok := strings.CutSuffix(digits, unit); ok {
			digits, shift = d, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1<<40>>shift {
		return fmt.Errorf("%q: want a number of bytes up to 1024GiB, such as 64MiB", b)
	}
	*s = size(n << shift)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nvmet:", strings.TrimPrefix(err.Error(), "nvmet: "))
		os.Exit(1)
	}
}

// command serves until ctx ends.
func command(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	parser, err := kong.New(&o, kong.Name("nvmet"), kong.Description("An NVMe target over RDMA."))
	if err != nil {
		return err
	}
	if _, err = parser.Parse(args); err != nil {
		return err
	}
	disk, closeDisk := nvmet.Backend(nil), func() error { return nil }
	if o.File == "" {
		disk = nvmet.NewRAM(int(o.Size))
	} else {
		f, err := nvmet.OpenFile(o.File, int64(o.Size))
		if err != nil {
			return err
		}
		disk, closeDisk = f, f.Close
	}
	defer func() { err = errors.Join(err, closeDisk()) }()
	m, addr, err := loopback.Open(o.Addr, loopback.First, o.open)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	t, err := nvmet.Listen(m, netip.AddrPortFrom(addr, o.Port), nvmet.Config{NQN: o.NQN, Backend: disk,
		Queues: o.Queues, Memory: int64(o.Memory), Logger: slog.New(slog.NewTextHandler(out, nil))})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving %s of %d bytes at %v\n", o.NQN, disk.Size(), t.Addr())
	<-ctx.Done()
	return t.Close()
}

// open opens an adapter, with the packet loss that was asked for, or connects to the daemon.
func (o *options) open(addr netip.Addr) (*rdmacm.Manager, error) {
	switch {
	case o.Daemon != "":
		return services.Dial(services.Config{UAL: ual.Config{Path: o.Daemon, Name: "nvmet"}})
	case o.Drop == 0:
		return softroce.Open(addr, softroce.Config{})
	}
	port, err := udp.New(udp.Config{Addr: addr})
	if err != nil {
		return nil, err
	}
	loss := impair.Model{Drop: o.Drop}
	bad, err := impair.New(port, impair.Config{Seed: 1, Out: loss, In: loss})
	if err != nil {
		return nil, errors.Join(err, port.Close())
	}
	hca, err := reference.New(reference.Config{Ports: []rvt.Port{bad}})
	if err != nil {
		return nil, err
	}
	m, err := rdmacm.OpenHCA(hca, rdmacm.OpenConfig{OnClose: hca.Close})
	if err != nil {
		return nil, errors.Join(err, hca.Close())
	}
	return m, nil
}
