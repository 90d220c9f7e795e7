// Package cli is the command line of ddkd, the daemon that owns adapters for the processes of a machine. It contains no
// driver: a program lists its own and calls Main. A vendor's daemon is
//
//	func main() {
//		os.Exit(cli.Main(cli.Config{
//			Name: "acme-ddkd",
//			Drivers: []cli.Driver{{
//				Name: "acme",
//				Keys: map[string]string{"bdf": "PCI address of the card"},
//				Open: func(_ context.Context, s cli.Settings, _ *slog.Logger) (ci.HCA, error) {
//					return acme.Open(s["bdf"])
//				},
//			}},
//		}, os.Args[1:]))
//	}
//
// Its users then start it with
//
//	acme-ddkd serve --adapter bdf=0000:3b:00.0
//
// The documentation of command ciddk/cmd/ddkd describes the commands, the flags and the configuration file.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"ciddk/internal/command"
	"ciddk/internal/memlimit"
	"ciddk/ual"
)

// Config describes what is linked into a program.
type Config struct {
	Name        string    // name of the program
	Description string    // for the help text; may be empty
	Drivers     []Driver  // the first one is the default; at least one
	Stdout      io.Writer // nil means os.Stdout
	Stderr      io.Writer // nil means os.Stderr
}

// commands is the grammar of the command line.
type commands struct {
	Serve   serveCmd   `cmd:"" help:"Own adapters and serve clients until a signal."`
	Check   checkCmd   `cmd:"" help:"Validate a configuration file and print it with all values."`
	Status  statusCmd  `cmd:"" help:"Print the adapters, ports, clients and objects of a running daemon."`
	Adapter adapterCmd `cmd:"" help:"Add, remove and list the adapters of a running daemon."`
}

// Main executes a command line, without the program's name, and returns the exit status. SIGTERM and SIGINT stop the
// daemon. A second one ends it at once, and so does a daemon that has not stopped closeTime after its drain.
func Main(c Config, args []string) int {
	memlimit.UseOneHeap()
	p := new(patience)
	ctx, stop := command.Signals(p.limit)
	defer stop()
	return run(ctx, c, args, p)
}

// closeTime is the time that a daemon has to close its adapters.
const closeTime = 30 * time.Second

// patience is the time that the daemon has to end after a signal.
type patience struct{ drain atomic.Int64 }

func (p *patience) extend(drain time.Duration) { p.drain.Store(int64(drain)) }

func (p *patience) limit() time.Duration { return closeTime + time.Duration(p.drain.Load()) }

// Run is Main without signals: the daemon serves until ctx ends.
func Run(ctx context.Context, c Config, args []string) int { return run(ctx, c, args, new(patience)) }

func run(ctx context.Context, c Config, args []string, late *patience) int {
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if len(c.Drivers) == 0 {
		fmt.Fprintf(c.Stderr, "%s: this program has no driver; set Config.Drivers\n", c.Name)
		return 1
	}
	grammar := commands{Serve: serveCmd{drivers: c.Drivers}, Check: checkCmd{drivers: c.Drivers}}
	exited := -1
	k, err := kong.New(&grammar, kong.Name(c.Name), kong.Description(c.Description),
		kong.Vars{"default_socket": ual.DefaultPath}, command.WithVersion(c.Name),
		kong.Writers(c.Stdout, c.Stderr), kong.Exit(func(n int) { exited = n }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.BindTo(c.Stdout, (*io.Writer)(nil)), kong.Bind(&logs{c.Stderr}, late))
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
		return 1
	}
	p, err := k.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
		return 2
	}
	if err := p.Run(); err != nil {
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintf(c.Stderr, "%s: %v\n", c.Name, err)
		}
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
