// Package command runs the programs of the kit that consist of commands.
package command

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

// Exit statuses of Run.
const (
	ExitError = 1
	ExitUsage = 2
)

// Main calls run with the arguments of the process, and ends the process with its result. SIGINT and SIGTERM end the
// context.
func Main(run func(ctx context.Context, args []string, out, errs io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// A Program is a command line.
type Program struct {
	Name, Description string
	// Grammar is a pointer to the structure from which kong makes the command line.
	Grammar any
	// Bindings returns the arguments of the commands' Run methods. It is called when Grammar is filled in.
	Bindings  func() []any
	Out, Errs io.Writer
}

// Run executes a command line and returns the exit status. It panics if the grammar is wrong. A command that ends
// because its context was canceled prints no error.
func (p *Program) Run(args []string) int {
	exit := -1
	parser, err := kong.New(p.Grammar, kong.Name(p.Name), kong.Description(p.Description), kong.Writers(p.Out, p.Errs),
		kong.Exit(func(code int) { exit = code }))
	if err != nil {
		panic(err)
	}
	k, err := parser.Parse(args)
	switch {
	case exit >= 0: // --help
		return exit
	case err != nil:
		fmt.Fprintf(p.Errs, "%s: %v\n", p.Name, err)
		return ExitUsage
	}
	if err := k.Run(p.Bindings()...); err != nil {
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintf(p.Errs, "%s: %v\n", p.Name, err)
		}
		return ExitError
	}
	return 0
}
