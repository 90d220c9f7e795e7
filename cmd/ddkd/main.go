// Command ddkd is the daemon that owns RDMA adapters and lets the processes of this machine use them, by package ual.
// It needs no privileges: its adapters speak RoCEv2 from UDP sockets.
//
//	ddkd serve --adapter address=192.0.2.1     # until SIGTERM or SIGINT
//	ddkd serve --config /etc/ddkd.yaml
//	ddkd status [--json]
//
// # Configuration
//
// The file is YAML. Flags take precedence, and --adapter adds to the file's adapters.
//
//	socket: /run/ddkd/socket   # clients connect here; also $DDKD_SOCKET
//	mode: "0660"               # of the socket: who may connect
//	log: info                  # debug, info, warn, error
//	adapters:
//	  - link: udp              # RoCEv2 over UDP; network: link/sim, a simulated network within the daemon
//	    address: 192.0.2.1     # or interface: eth0, for all its addresses
//	    port: 4791
//	quota:                     # of each client; 0: the default in kproxy.Quota
//	  qps: 1024                # also pds, avs, cqs, srqs, mrs, mws, multicast: objects of each kind
//	  event-queues: 16
//	  queues: 268435456        # bytes of all queues, estimated from their sizes
//	  memory: 1073741824       # bytes of registered memory
//	  events: 1024             # that wait in an event queue
//	  pending: 32              # requests in execution
//	max-clients: 100
//	max-clients-per-user: 10
//
// # Stopping
//
// SIGTERM and SIGINT close all connections, destroy everything, and exit with status 0. A client whose daemon exits
// receives EventLocalFatal, and its verbs return ual.ErrDisconnected.
//
// Exit status: 0 stopped by a signal, 1 an error, 2 usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// commands is the grammar of the command line.
type commands struct {
	Serve  serveCmd  `cmd:"" help:"Own adapters and serve clients until a signal."`
	Status statusCmd `cmd:"" help:"Print the adapters, ports, clients and objects of a running daemon."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	exited := -1
	k, err := kong.New(&c, kong.Name("ddkd"), kong.Description("A daemon that owns RDMA adapters for the processes "+
		"of this machine."),
		kong.Writers(stdout, stderr), kong.Exit(func(n int) { exited = n }), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(stdout, (*io.Writer)(nil)), kong.Bind(&logs{stderr}))
	if err != nil {
		fmt.Fprintf(stderr, "ddkd: %v\n", err)
		return 1
	}
	p, err := k.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "ddkd: %v\n", err)
		return 2
	}
	if err := p.Run(); err != nil {
		fmt.Fprintf(stderr, "ddkd: %v\n", err)
		if errors.Is(err, errUsage) {
			return 2
		}
		return 1
	}
	return 0
}

// errUsage is wrapped by errors of the configuration.
var errUsage = errors.New("the configuration is not valid")

// logs is where log lines go.
type logs struct{ w io.Writer }
