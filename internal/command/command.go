// Package command runs the programs of the kit that consist of commands.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"ciddk/internal/version"
)

// Exit statuses of Run.
const (
	ExitError = 1
	ExitUsage = 2
)

// endTime is the time that a program has to end after a signal.
const endTime = 5 * time.Second

// Main calls run with the arguments of the process, and ends the process with its result. SIGINT and SIGTERM end the
// context. A second signal ends the process at once, and so does a run that does not end in time.
func Main(run func(ctx context.Context, args []string, out, errs io.Writer) int) {
	ctx, stop := Signals(func() time.Duration { return endTime })
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// Signals returns a context that SIGINT and SIGTERM end. limit returns the time that the process has to end after one;
// then, or at a second signal, it ends at once. stop ends all of that.
func Signals(limit func() time.Duration) (ctx context.Context, stop func()) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	watching := context.AfterFunc(ctx, func() {
		cancel() // the next signal has its default effect
		late := limit()
		time.AfterFunc(late, func() {
			fmt.Fprintf(os.Stderr, "%s: did not end within %v of the signal\n", filepath.Base(os.Args[0]), late)
			os.Exit(ExitError)
		})
	})
	return ctx, func() {
		watching()
		cancel()
	}
}

// Await returns what fn returns, or the error of ctx when it ends before. fn then goes on until the process ends. It is
// for what cannot be interrupted, such as reading a file of a file system that does not answer.
func Await[T any](ctx context.Context, fn func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := fn()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
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

// WithVersion returns an option of kong: the flag --version.
func WithVersion(name string) kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		flag := &struct {
			Version kong.VersionFlag `help:"Print the version and exit."`
		}{}
		return errors.Join(kong.Embed(flag).Apply(k), kong.Vars{"version": version.Of(name)}.Apply(k))
	})
}

// Run executes a command line and returns the exit status. It panics if the grammar is wrong. A command that ends
// because its context was canceled prints no error.
func (p *Program) Run(args []string) int {
	exit := -1
	parser, err := kong.New(p.Grammar, kong.Name(p.Name), kong.Description(p.Description), kong.Writers(p.Out, p.Errs),
		kong.Exit(func(code int) { exit = code }), WithVersion(p.Name))
	if err != nil {
		panic(err)
	}
	k, err := parser.Parse(args)
	switch {
	case exit >= 0: // --help, --version
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
