// Package cli is the command line of the certifier. It contains no driver: a program links in its own and calls Main. A
// vendor's program has ten lines:
//
//	func main() {
//		os.Exit(cli.Main(cli.Config{
//			Name:    "validate-mine",
//			Drivers: []validate.Driver{mine},
//			Suites:  []validate.Suite{cisuite.Suite()},
//		}, os.Args[1:]))
//	}
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"ciddk/internal/command"
	"ciddk/validate"
	"ciddk/validate/evidence"
	"ciddk/validate/mutant"
)

// Config describes what is linked into a program.
type Config struct {
	Name    string              // name of the program
	Drivers []validate.Driver   // the first one is the default
	Suites  []validate.Suite    //
	Mutants [][]mutant.Mutant   // for the command self; may be empty
	Layers  []validate.Layer    // for --through; may be empty
	Stdout  io.Writer           // nil means os.Stdout
	Stderr  io.Writer           // nil means os.Stderr
	Getenv  func(string) string // nil means os.Getenv
	// Init writes a new module for the command init and returns the name of its package. If Init is nil, the command
	// does not exist.
	Init func(Scaffold) (name string, err error)
	// Peer is the driver for adapters that run a program of others, for the command wire, and PeerSuite are its cases.
	// If Peer.Open is nil, the command fails.
	Peer      validate.Driver
	PeerSuite validate.Suite
	// Elsewhere are drivers of other programs, which this one starts for them.
	Elsewhere []Elsewhere
}

// app is a checked Config. kong passes it to the commands.
type app struct {
	Config
	drivers *validate.Drivers
	catalog *validate.Catalog
	mutants *mutant.Set
	ctx     context.Context
	args    []string
	isPeer  bool // see of
}

// commands are the commands and flags of the program.
type commands struct {
	Run     runCmd     `cmd:"" help:"Run the cases over a driver and print a verdict."`
	List    listCmd    `cmd:"" help:"List the cases, or the requirements with their cases."`
	Explain explainCmd `cmd:"" help:"Explain a requirement or a case."`
	Wire    wireCmd    `cmd:"" help:"Judge an adapter that runs a stock program, at its wire alone."`
	Explore exploreCmd `cmd:"" help:"Drive a driver and a model of the interface with random verbs, and compare them."`
	Drivers driversCmd `cmd:"" help:"List the drivers of this program with their links and settings."`
	Self    selfCmd    `cmd:"" help:"Test the certifier with drivers that have deliberate faults; each must be caught."`
	Worker  workerCmd  `cmd:"" hidden:"" help:"Run cases for a parent process."`
	Profile profileCmd `cmd:"" hidden:"" help:"Print the profile for the driver's claims, for a parent process."`
}

const help = `Certifies a driver of an InfiniBand or RoCE adapter, requirement by requirement, through package ci alone.

Exit status: 0 certified, 1 a requirement failed, 2 wrong usage, 3 driver or certifier error, 4 no case selected,
5 inconclusive (the link or the machine may be the cause), 6 flaky, 7 a claim is not tested.`

// exitError is an error with an exit status. If err is not nil, it is printed to standard error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

// exitNow is the value of the panic by which kong's exits, such as that of --help, return to Main.
type exitNow int

// Main runs the command line and returns the exit status.
func Main(c Config, args []string) (code int) {
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	defer func() {
		if p := recover(); p != nil {
			n, ok := p.(exitNow)
			if !ok {
				panic(p)
			}
			code = int(n)
		}
	}()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	a := &app{Config: c, ctx: ctx, args: append([]string{c.Name}, args...)}
	if err := a.link(); err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
		return validate.ExitHarness
	}
	var cmds commands
	options := []kong.Option{
		kong.Name(c.Name), kong.Description(help), kong.Writers(c.Stdout, c.Stderr),
		kong.Exit(func(n int) { panic(exitNow(n)) }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Bind(a), kong.Vars{"profiles": profileNames(), "layers": a.layerNames()}, command.WithVersion(c.Name),
	}
	if c.Init != nil {
		const text = "Write a new module with a driver, from the kit's template."
		options = append(options, kong.DynamicCommand("init", text, "", &initCmd{}))
	}
	k, err := kong.New(&cmds, options...)
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
		return validate.ExitHarness
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := k.Parse(args)
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\nSee %s --help.\n", c.Name, err, c.Name)
		return validate.ExitUsage
	}
	if e, ok := a.elsewhere(&cmds, kctx.Command()); ok {
		return a.status(e.run(args))
	}
	return a.status(kctx.Run())
}

// link checks the Config. An error is a mistake of the program, not of its user.
func (a *app) link() (err error) {
	list := slices.Clone(a.Config.Drivers)
	for i := range list {
		if list[i].Evidence == nil {
			list[i].Evidence = evidence.Write
		}
	}
	if a.drivers, err = validate.NewDrivers(list...); err != nil {
		return err
	}
	if a.catalog, err = validate.NewCatalog(a.Suites...); err != nil {
		return err
	}
	a.mutants, err = mutant.NewSet(a.catalog, a.Mutants...)
	return err
}

// status prints the error of a command and returns its exit status.
func (a *app) status(err error) int {
	if err == nil {
		return validate.ExitCertified
	}
	code := validate.ExitUsage
	var ee *exitError
	var de *validate.DriverError
	switch {
	case errors.As(err, &ee):
		if code, err = ee.code, ee.err; err == nil {
			return code
		}
	case errors.As(err, &de), errors.Is(err, context.Canceled):
		code = validate.ExitHarness
	case validate.IsNothing(err):
		code = validate.ExitNothing
	}
	fmt.Fprintf(a.Stderr, "%s: %v\n", a.Name, err)
	return code
}
