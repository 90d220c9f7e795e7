// Command ddk-model serves models of ConnectX-3 cards to virtual machines: QEMU 10.1 or later connects to a socket
// (vfio-user), and the guest's stock mlx4 driver finds a card.
//
//	ddk-model serve /run/card0 /run/card1            # two cards on one InfiniBand link, until SIGTERM or SIGINT
//	ddk-model serve --link ethernet --pro /run/card0 /run/card1
//	ddk-model serve --topology two.net /run/card0=h1 /run/card1=h2
//	ddk-model qemu /run/card0                        # the command line of a virtual machine with the card
//	ddk-model fault link /run/card0 down             # a fault, if the cards are served with --faults
//
// # Links
//
// The default link joins all cards with InfiniBand; it assigns LIDs, so no subnet manager is needed. With --topology
// the cards are adapters of a subnet in software (package fabric), in ibsim's net format, and a guest can run OpenSM;
// --configure does without one. With --link ethernet the cards are on an Ethernet switch in the process, with RoCE v1,
// and v2 with --pro. --dgram, --stream and --tap join that switch with network back ends of other virtual machines and
// with the host:
//
//	ddk-model serve --link ethernet --dgram /run/net.a,/run/net.b /run/card0
//	qemu-system-x86_64 … -netdev dgram,id=n0,local.type=unix,local.path=/run/net.b,\
//	  remote.type=unix,remote.path=/run/net.a
//
// The interface of --tap has a carrier while the port of a card is open, or if the switch has other members.
//
// # Faults and quirks
//
// With --faults, a card that is served has faults on demand:
//
//	ddk-model fault link /run/card0 down             # up plugs the cable in again
//	ddk-model fault catastrophic /run/card0          # Linux resets the card
//	ddk-model fault fail /run/card0 SW2HW_MPT BAD_RESOURCE --count 3
//	ddk-model fault hang /run/card0 SW2HW_CQ
//	ddk-model fault lose-interrupts /run/card0 --vector 1
//	ddk-model fault overflow-eq /run/card0 --eq 9
//
// --quirk makes all cards deviate as real ones do: empty-reads, windows-2b.
//
// # Trust
//
// A process that can connect to a socket uses the card. The sockets have the rights that the umask leaves, so put them
// into a folder of their owner. Only their owner can connect to those of --faults.
//
// Exit status: 0 success, 1 an error, 2 usage.
package main

import (
	"context"
	"io"

	"ciddk/internal/command"
)

// commands is the grammar of the command line.
type commands struct {
	Serve serveCmd `cmd:"" help:"Serve cards until a signal."`
	QEMU  qemuCmd  `cmd:"" name:"qemu" help:"Print the command line of a virtual machine with cards."`
	Fault faultCmd `cmd:"" help:"Inject a fault into a card that is being served."`
}

// program is where commands write.
type program struct {
	ctx context.Context
	out io.Writer
	err io.Writer
}

func main() { command.Main(run) }

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c commands
	p := command.Program{Name: "ddk-model", Grammar: &c, Out: out, Errs: errs}
	p.Description = "Models of ConnectX-3 cards for virtual machines, over vfio-user."
	p.Bindings = func() []any { return []any{&program{ctx: ctx, out: out, err: errs}} }
	return p.Run(args)
}
