// Command check is the project's test command. It runs checks one after the other, each with a time limit, and prints
// what it ran, what failed and one line of counts.
//
//	go run ./tools/check            format, vet, tests: for every change; at most 6 minutes on 2 quiet cores
//	go run ./tools/check -full      everything, as CI: also other systems, the race detector, virtual machines,
//	                                fuzzing, certification
//	go run ./tools/check race lint  those steps only
//	go run ./tools/check -list      the steps and the time that each takes
//
// Of large matrices (fuzz targets, mutants, runs against Linux), a fixed core runs, the same on every commit; -whole
// runs all of them.
//
// The exit status is
//
//	0  everything passed
//	1  a check failed
//	2  wrong usage
//	3  nothing failed, but a step was stopped at its time limit, because the machine is too slow or too busy
//
// No test is repeated: one that fails once is a defect. CI fails with status 3, too, since not everything was checked.
// A step that a machine cannot run (no C compiler for the race detector) is skipped with its reason. Tests that need
// root or other programs skip themselves and are counted.
//
// The summary has the processor time of each step: what the compiler, vet, the linker and the programs took, and the
// number of programs that were linked. It ends with the first lines of what failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
)

// overall bounds a run; CI ends a job some time after it.
const overall = 75 * time.Minute

// Exit statuses.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitTooSlow = 3
)

var errInterrupted = errors.New("interrupted")

func main() {
	if os.Getenv(spinEnv) != "" {
		spin(os.Stdin)
	}
	if len(os.Args) > 3 && os.Args[1] == toolFlag {
		os.Exit(runTool(os.Args[2], os.Args[3:]))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.SetOutput(stderr)
	full := fs.Bool("full", false, "run every step, with virtual machines and measurements, as CI does")
	whole := fs.Bool("whole", false, "run large matrices whole, instead of their fixed cores")
	list := fs.Bool("list", false, "list the steps and stop")
	loadRuns := fs.Int("load.runs", 1, "certifications of the step load")
	numKills := fs.Int("kills.clients", defaultKills, "clients that the step kills kills")
	again := new(repetition)
	fs.IntVar(&again.runs, "repeat.runs", 20, "runs of each package in the step repeat")
	fs.IntVar(&again.busy, "repeat.busy", busyProcesses, "busy processes beside the step repeat")
	fs.StringVar(&again.file, "repeat.file", "docs/repeats.tsv", "results of the step repeat, which it resumes")
	fs.StringVar(&again.packages, "repeat.packages", "./...", "packages of the step repeat, separated by spaces")
	if err := fs.Parse(args); err != nil {
		return exitUsage
	}
	for name, n := range map[string]int{"kills.clients": *numKills, "repeat.runs": again.runs} {
		if n < 1 {
			fmt.Fprintf(stderr, "check: -%s %d: want at least 1\n", name, n)
			return exitUsage
		}
	}
	steps := steps(*full, again)
	scaleKills(steps, *numKills)
	if *list {
		printSteps(stdout, steps)
		return 0
	}
	for _, name := range fs.Args() {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			fmt.Fprintf(stderr, "check: no step %q (-list prints them)\n", name)
			return exitUsage
		}
	}
	chosen := slices.DeleteFunc(steps, func(s step) bool {
		if fs.NArg() > 0 {
			return !slices.Contains(fs.Args(), s.name)
		}
		return s.when == byName || s.when == inFull && !*full
	})
	root, err := modroot.Find()
	if err != nil {
		fmt.Fprintln(stderr, "check:", err)
		return exitUsage
	}
	if !filepath.IsAbs(again.file) {
		again.file = filepath.Join(root, again.file)
	}
	// The tests read these variables: see package testenv.
	if *full {
		os.Setenv(testenv.FullVariable, "1")
	}
	if *whole {
		os.Setenv(testenv.WholeVariable, "1")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	go func() {
		select {
		case <-interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	ctx, stop := context.WithTimeoutCause(ctx, overall, errTooSlow)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(stderr, "check:", err)
		return exitUsage
	}
	r := &runner{root: root, self: self, out: stdout, full: *full, whole: *whole, loadRuns: *loadRuns,
		numKills: *numKills, results: results{}}
	return r.all(ctx, chosen)
}

func printSteps(w io.Writer, steps []step) {
	for _, s := range steps {
		fmt.Fprintf(w, "%-10s %-10s %5s, at most %-5s %s\n", s.name, s.when, short(s.expect), short(s.limit), s.title)
	}
}

// short formats a duration without its zero parts.
func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	if s := int(d.Seconds()) % 60; s != 0 {
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), s)
	}
	return fmt.Sprintf("%dm", int(d.Minutes()))
}
