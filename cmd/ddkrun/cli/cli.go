// Package cli is the command line of ddkrun, which runs verbs programs on the adapters of a daemon. Command
// ciddk/cmd/ddkrun describes it.
package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"ciddk/cmd/ddkrun/seccomp"
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
	if len(args) > 0 && args[0] == daemonArg {
		return serve(args[1:])
	}
	if status, ok := seccomp.Main(args); ok {
		return status
	}
	f := flag.NewFlagSet("ddkrun", flag.ContinueOnError)
	socket := f.String("socket", "", "`path` of the socket of a daemon (default: that of the machine or of the user)")
	carrier := f.String("carrier", carrierAuto, "how the program reaches the daemon: "+strings.Join(carriers, ", "))
	share, err := newShareFlag()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ddkrun: %v\n", err)
		return exitUsage
	}
	f.Var(share, "share-memory", "`when` memory that PROGRAM registers is shared with the daemon, which is faster: "+
		strings.Join(shareChoices, ", ")+"; --share-memory alone is "+shareAlways+" (see docs/verbs.md)")
	explain := f.Bool("explain", false, "print what PROGRAM, or any program, would find, and why")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "Usage: ddkrun [flags] PROGRAM [ARGUMENT...]\n\n"+
			"Runs a verbs program on the adapters of ddkd.\n\n")
		f.PrintDefaults()
	}
	err = f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return exitUsage
	case f.NArg() == 0 && !*explain:
		f.Usage()
		return exitUsage
	case share.isBare && slices.Contains(shareChoices, f.Arg(0)):
		fmt.Fprintf(os.Stderr, "ddkrun: --share-memory has a value after =: write --share-memory=%s "+
			"(or ./%[1]s for a program with that name)\n", f.Arg(0))
		return exitUsage
	case !slices.Contains(carriers, *carrier):
		fmt.Fprintf(os.Stderr, "ddkrun: --carrier %s: want one of %s\n", *carrier, strings.Join(carriers, ", "))
		return exitUsage
	}
	status := 0
	if *explain {
		err = explainTo(os.Stdout, *socket, *carrier, share.choice, f.Args())
	} else {
		status, err = execute(*socket, *carrier, share.choice, f.Args())
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
