// Command ddk-fabric runs an InfiniBand subnet in software, which OpenSM and the programs of infiniband-diags manage as
// they would a real one.
//
//	ddk-fabric generate fattree --down 4,2 --up 1,2 > tree.net
//	ddk-fabric serve tree.net                    # until SIGTERM or SIGINT
//	ddk-fabric status [--json]                   # nodes, ports, links, dropped packets
//	ddk-fabric draw [--from h1 --to h8] > tree.svg
//	ddk-fabric cut h1:1
//	ddk-fabric restore h1:1
//	ddk-fabric remove s2-1                       # a node, with all its cables
//
// Programs join with the preload library of umad2sim (Debian: libumad2sim0), each at the node that SIM_HOST names:
//
//	LD_PRELOAD=/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so SIM_HOST=h1 opensm
//
// Adapters of other processes join with package fabric/join, ddkd (link = fabric) or ddk-validate (--link fabric).
//
// # Several fabrics
//
// --name (or $IBSIM_SOCKNAME) distinguishes the fabrics of a machine; programs with the same IBSIM_SOCKNAME join that
// one. The sockets are ddk-fabric-NAME-control.sock and ddk-fabric-NAME-join.sock in $XDG_RUNTIME_DIR, or else in the
// folder for temporary files; only their owner can connect.
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
	Name string `default:"sim" env:"IBSIM_SOCKNAME" help:"Name of the fabric, as IBSIM_SOCKNAME of the programs."`

	Serve    serveCmd    `cmd:"" help:"Run a fabric until a signal."`
	Status   statusCmd   `cmd:"" help:"Print the nodes, ports and links of a running fabric."`
	Draw     drawCmd     `cmd:"" help:"Draw a running fabric as SVG."`
	Cut      cutCmd      `cmd:"" help:"Cut the cable at a port of a running fabric."`
	Restore  restoreCmd  `cmd:"" help:"Restore the cable at a port of a running fabric."`
	Remove   removeCmd   `cmd:"" help:"Remove a node with all its cables from a running fabric."`
	Generate generateCmd `cmd:"" help:"Print a generated topology in ibsim's net format."`
}

// program is where commands write, and the name of their fabric.
type program struct {
	ctx  context.Context
	out  io.Writer
	err  io.Writer
	name string
}

func main() { command.Main(run) }

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c commands
	p := command.Program{Name: "ddk-fabric", Grammar: &c, Out: out, Errs: errs}
	p.Description = "InfiniBand subnets in software, for OpenSM and infiniband-diags."
	p.Bindings = func() []any { return []any{&program{ctx: ctx, out: out, err: errs, name: c.Name}, &c} }
	return p.Run(args)
}
