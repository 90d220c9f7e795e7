package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ciddk/internal/procgroup"
)

// when selects the runs that a step is part of. Every step runs when it is named.
type when string

const (
	always when = "always"
	inFull when = "with -full"
	byName when = "by name"
)

// step is one check of the project.
type step struct {
	name, title string
	when        when
	expect      time.Duration // on 2 quiet cores, with nothing in the build cache
	limit       time.Duration
	run         func(context.Context, *runner) error
}

// errSkip is wrapped by the error of a step that this machine cannot run; the text is the reason.
var errSkip = errors.New("skipped")

func skip(why string) error { return fmt.Errorf("%w: %s", errSkip, why) }

// errTooSlow is the cause of contexts that end at a time limit.
var errTooSlow = errors.New("the time limit has passed")

// defect is an error of a step that found something wrong before its time limit.
type defect struct{ error }

type runner struct {
	root string
	self string // this program, which measures the tools of the go command; "" to measure nothing
	out  io.Writer
	full bool
	// whole is set if samples are to be whole.
	whole bool
	// loadRuns is how often the load step certifies.
	loadRuns int
	// numKills is the number of clients that the kills step kills.
	numKills int
	results  results
	ends     ends
	mu       sync.Mutex
	cpu      cpu // of the running step
}

// all runs the steps in order, goes on after a failure, and prints the summary. It returns the exit status.
func (r *runner) all(ctx context.Context, steps []step) int {
	var total time.Duration
	for _, s := range steps {
		total += s.expect
	}
	fmt.Fprintf(r.out, "%d steps, about %s on 2 quiet cores\n", len(steps), short(total.Round(10*time.Second)))
	var lines []string
	var all cpu
	start := time.Now()
	for _, s := range steps {
		r.cpu = cpu{}
		lines = append(lines, r.one(ctx, s))
		all = all.add(r.cpu)
	}
	took := time.Since(start).Round(100 * time.Millisecond)
	fmt.Fprintf(r.out, "\n=== summary\n%s\n%s\n", strings.Join(lines, "\n"), summaryLine("together", took, all, ""))
	r.ends.report(r.out)
	r.results.report(r.out)
	passed, failed, skipped, slow := r.results.count()
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped", passed, failed, skipped)
	if slow > 0 {
		fmt.Fprintf(r.out, ", %d too slow here (not checked; no failure of the code)", slow)
	}
	fmt.Fprintln(r.out)
	switch {
	case failed > 0:
		return exitFailed
	case slow > 0:
		return exitTooSlow
	}
	return 0
}

// one runs a step, notes its result and returns its line of the summary.
func (r *runner) one(ctx context.Context, s step) string {
	var took time.Duration
	err := context.Cause(ctx)
	started := err == nil
	if started {
		fmt.Fprintf(r.out, "\n=== %s: %s (about %s)\n", s.name, s.title, short(s.expect))
		start := time.Now()
		limited, cancel := context.WithTimeoutCause(ctx, s.limit, errTooSlow)
		failedBefore := r.results.failed()
		err = s.run(limited, r)
		if cause := context.Cause(limited); cause != nil && !errors.As(err, new(defect)) &&
			r.results.failed() == failedBefore {
			err = cause // the error is a consequence of the time limit
		}
		cancel()
		took = time.Since(start).Round(100 * time.Millisecond)
	}
	word, result := "ok", "pass"
	switch {
	case err == nil:
	case errors.Is(err, errSkip):
		word, result = "SKIP ("+strings.TrimPrefix(err.Error(), errSkip.Error()+": ")+")", "skip"
	case errors.Is(err, errTooSlow) && !started:
		word, result = fmt.Sprintf("TOO SLOW HERE (not run: the whole run is stopped after %s)", short(overall)), "slow"
	case errors.Is(err, errTooSlow):
		word, result = fmt.Sprintf("TOO SLOW HERE (stopped after %s; takes %s on 2 quiet cores)", short(s.limit),
			short(s.expect)), "slow"
	default:
		word, result = "FAIL ("+err.Error()+")", "fail"
	}
	r.results.step(s.name, result)
	if started {
		fmt.Fprintf(r.out, "--- %s: %s in %v\n", s.name, word, took)
	}
	return summaryLine(s.name, took, r.cpu, word)
}

// summaryLine describes a step that took some time and processor time.
func summaryLine(name string, took time.Duration, c cpu, word string) string {
	line := fmt.Sprintf("%-10s %8v", name, took)
	if c.total() >= time.Second {
		line += fmt.Sprintf("  %4ds CPU (%v)", c.total()/time.Second, c)
	}
	return strings.TrimRight(line+"  "+word, " ")
}

// withC is the environment of what needs C, such as the race detector.
const withC = "CGO_ENABLED=1"

// command prepares a program that runs in the tree's root with additional environment variables. Without withC, Go
// builds without C, as the kit does by default: all steps share what is compiled. When ctx ends, the program and its
// children are killed.
func (r *runner) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.root
	c.Env = slices.Concat(os.Environ(), []string{"CGO_ENABLED=0"}, env)
	c.WaitDelay = 10 * time.Second
	procgroup.Set(c)
	return c
}

// do runs a program and copies its output.
func (r *runner) do(ctx context.Context, env []string, name string, args ...string) error {
	fmt.Fprintf(r.out, "$ %s\n", strings.Join(append(append([]string{}, env...), append([]string{name}, args...)...),
		" "))
	c := r.command(ctx, env, name, args...)
	var end tail
	c.Stdout = io.MultiWriter(r.out, &end)
	c.Stderr = c.Stdout
	if err := r.run(c); err != nil {
		r.ends.addEnd(strings.Join(append([]string{filepath.Base(name)}, args...), " "), string(end.b))
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return nil
}

// output runs a program and returns the words of its standard output.
func (r *runner) output(ctx context.Context, name string, args ...string) ([]string, error) {
	c := r.command(ctx, nil, name, args...)
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, r.out
	if err := r.run(c); err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.Fields(b.String()), nil
}
