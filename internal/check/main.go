// Command check is the project's test command: it runs every check there is, one after the other, each with a time limit, and prints what
// it ran, what failed and one line of counts.
//
//	go run ./internal/check            format, vet, layers, tests, tests with -race
//	go run ./internal/check -full      and lint, fuzzing, benchmarks, certification, examples: what CI runs
//	go run ./internal/check test race  those steps only
//	go run ./internal/check -list      the steps
//
// The exit status is 0 when everything passed, 1 when a step failed, 2 for wrong usage. A step that a machine cannot run (no C compiler
// for -race) is skipped with its reason; tests that need root or other programs skip themselves and are counted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"ciddk/internal/layers"
)

// overall bounds a run; CI ends a job some time after it.
const overall = 75 * time.Minute

func main() {
	if os.Getenv(spinEnv) != "" {
		spin(os.Stdin)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.SetOutput(stderr)
	full := fs.Bool("full", false, "run every step, as CI does")
	list := fs.Bool("list", false, "list the steps and stop")
	loadRuns := fs.Int("load.runs", 3, "certifications of the step load")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	steps := steps()
	if *list {
		for _, s := range steps {
			when := "always"
			if s.full {
				when = "with -full"
			}
			fmt.Fprintf(stdout, "%-10s %-10s at most %-7v %s\n", s.name, when, s.limit, s.title)
		}
		return 0
	}
	for _, name := range fs.Args() {
		if !slices.ContainsFunc(steps, func(s step) bool { return s.name == name }) {
			fmt.Fprintf(stderr, "check: no step %q; -list names them\n", name)
			return 2
		}
	}
	chosen := slices.DeleteFunc(steps, func(s step) bool {
		if fs.NArg() > 0 {
			return !slices.Contains(fs.Args(), s.name)
		}
		return s.full && !*full
	})
	root, err := layers.Root()
	if err != nil {
		fmt.Fprintln(stderr, "check:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, overall, fmt.Errorf("the whole run may take %v", overall))
	defer cancel()
	r := &runner{root: root, out: stdout, full: *full, loadRuns: *loadRuns, results: results{}}
	if !r.all(ctx, chosen) {
		return 1
	}
	return 0
}
