// Package cli is the command line of ddkrun, which runs verbs programs on the adapters of a daemon. Command
// ciddk/cmd/ddkrun describes it.
package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ciddk/internal/seccomp"
	"ciddk/internal/version"
)

// The exit statuses of errors, as those of env and timeout.
const (
	exitUsage    = 2
	exitFailed   = 125
	exitNotFound = 127
)

// Main executes a command line, without the program's name. It returns the exit status if it has not started a program,
// which replaces the process.
func Main(args []string) int {
	if status, ok := mainOfProcess(args); ok {
		return status
	}
	if status, ok := seccomp.Main(args); ok {
		return status
	}
	o, f, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "ddkrun: %v\n", err)
		return exitUsage
	}
	status := 0
	switch {
	case o.version:
		fmt.Println(version.Of("ddkrun"))
	case o.stop:
		err = stopDaemon()
	case o.explain:
		err = explainTo(os.Stdout, o, f.Args())
	case o.install != "":
		err = installTo(os.Stdout, o)
	default:
		status, err = execute(o, f.Args())
	}
	if err == nil {
		return status
	}
	fmt.Fprintf(os.Stderr, "ddkrun: %v\n", err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) && errors.Is(err, errProgram) {
		return exitNotFound
	}
	return exitFailed
}

// options are the flags.
type options struct {
	socket, carrier string
	share           string // one of shareChoices
	idle, wait      time.Duration
	waitPort        uint // 0: none
	explain, stop   bool
	isStock         bool // faults of the user library reach the program
	version         bool
	compile         bool // the library that programs preload
	install         string
}

// parse parses a command line, and validates it.
func parse(args []string) (o options, f *flag.FlagSet, err error) {
	f = flag.NewFlagSet("ddkrun", flag.ContinueOnError)
	f.StringVar(&o.socket, "socket", "",
		"`path` of the socket of a daemon (default: that of the machine or of the user)")
	f.StringVar(&o.carrier, "carrier", carrierAuto, "how the program reaches the daemon: "+strings.Join(carriers, ", "))
	share, err := newShareFlag()
	if err != nil {
		return o, f, err
	}
	f.Var(share, "share-memory", "`when` memory that PROGRAM registers is shared with the daemon, which is faster: "+
		strings.Join(shareChoices, ", ")+"; --share-memory alone is "+shareAlways+" (see docs/verbs.md)")
	if o.idle, err = defaultIdle(); err != nil {
		return o, f, err
	}
	f.DurationVar(&o.idle, "idle", o.idle, "`time` without a program after which the daemon that ddkrun starts ends; "+
		"0: with the last one, as is the default in CI")
	f.DurationVar(&o.wait, "wait", 0, "`time` to wait for the daemon of --socket, or of $DDKD_SOCKET, to answer")
	f.UintVar(&o.waitPort, "wait-port", 0, "start PROGRAM when another one listens on a `port`, of TCP or of RDMA "+
		"connections; --wait limits the time (default 1m)")
	f.BoolVar(&o.isStock, "no-workarounds", os.Getenv(envStock) != "", "work around no fault of PROGRAM's user "+
		"library (--explain lists them)")
	f.BoolVar(&o.compile, "compile", false, "compile the library that PROGRAM preloads with the C compiler of the "+
		"machine (cc), instead of the one that ddkrun brings")
	f.BoolVar(&o.explain, "explain", false, "print what PROGRAM, or any program, would find, and why")
	f.StringVar(&o.install, "install", "", "write what programs need to use the daemon of --socket without ddkrun to "+
		"a `directory`, and print the environment that they need")
	f.BoolVar(&o.stop, "stop", false, "end the daemon that ddkrun has started for this user")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "Usage: ddkrun [flags] PROGRAM [ARGUMENT...]\n\n"+
			"Runs a verbs program on the adapters of ddkd.\n\n")
		f.PrintDefaults()
	}
	f.SetOutput(io.Discard) // Main prints the error
	err = f.Parse(args)
	f.SetOutput(os.Stderr)
	o.share = share.choice
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.Usage()
	case err != nil:
	case o.stop && (f.NArg() > 0 || o.explain):
		err = errors.New("--stop takes no program")
	case o.install != "" && (f.NArg() > 0 || o.explain || o.stop || o.compile):
		err = errors.New("--install takes no program, and neither --explain, --stop nor --compile")
	case !o.stop && f.NArg() == 0 && !o.explain && !o.version && o.install == "":
		err = errors.New("no program (see ddkrun --help)")
	case share.isBare && slices.Contains(shareChoices, f.Arg(0)):
		err = fmt.Errorf("--share-memory has a value after =: write --share-memory=%s "+
			"(or ./%[1]s for a program with that name)", f.Arg(0))
	case !slices.Contains(carriers, o.carrier):
		err = fmt.Errorf("--carrier %s: want one of %s", o.carrier, strings.Join(carriers, ", "))
	case o.idle < 0:
		err = fmt.Errorf("--idle %v: want a positive time, or 0", o.idle)
	case o.wait < 0:
		err = fmt.Errorf("--wait %v: want a positive time, or 0", o.wait)
	case o.waitPort > math.MaxUint16:
		err = fmt.Errorf("--wait-port %d: want a port, 1 to %d", o.waitPort, math.MaxUint16)
	}
	return o, f, err
}

// envIdle is the environment variable with the default of --idle.
const envIdle = "DDKRUN_IDLE"

// defaultIdle returns the default of --idle. In CI, whose systems set CI, a daemon would keep a job, or its container,
// from its end.
func defaultIdle() (time.Duration, error) {
	if v := os.Getenv(envIdle); v != "" {
		idle, err := time.ParseDuration(v)
		if err != nil || idle < 0 {
			return 0, fmt.Errorf("%s=%s: want a positive time such as 10m, or 0", envIdle, v)
		}
		return idle, nil
	}
	if isCI, err := strconv.ParseBool(cmp.Or(os.Getenv("CI"), "0")); isCI || err != nil {
		return 0, nil
	}
	return 30 * time.Minute, nil
}
