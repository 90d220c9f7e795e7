package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// step is one check of the project.
type step struct {
	name, title string
	full        bool // only with -full or by name
	limit       time.Duration
	run         func(context.Context, *runner) error
}

// errSkip is wrapped by a step that this machine cannot run; the text says why.
var errSkip = errors.New("skipped")

func skip(why string) error { return fmt.Errorf("%w: %s", errSkip, why) }

type runner struct {
	root string
	out  io.Writer
	full bool
	// loadRuns is how often the load step certifies.
	loadRuns int
	results  results
}

// all runs the steps in order, goes on after a failure, and prints the summary. It tells whether all passed.
func (r *runner) all(ctx context.Context, steps []step) bool {
	var lines []string
	for _, s := range steps {
		if ctx.Err() != nil {
			r.results.step(s.name, "fail")
			lines = append(lines, fmt.Sprintf("%-10s %8s  FAIL (not run: %v)", s.name, "", context.Cause(ctx)))
			continue
		}
		fmt.Fprintf(r.out, "\n=== %s: %s\n", s.name, s.title)
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, s.limit)
		err := s.run(limited, r)
		if err == nil || !errors.Is(err, errSkip) {
			if limited.Err() != nil {
				err = fmt.Errorf("stopped after at most %v: %w", s.limit, errors.Join(err, context.Cause(limited)))
			}
		}
		cancel()
		took := time.Since(start).Round(100 * time.Millisecond)
		verdict := "ok"
		switch {
		case errors.Is(err, errSkip):
			verdict = "SKIP (" + strings.TrimPrefix(err.Error(), errSkip.Error()+": ") + ")"
			r.results.step(s.name, "skip")
		case err != nil:
			verdict = "FAIL (" + err.Error() + ")"
			r.results.step(s.name, "fail")
		default:
			r.results.step(s.name, "pass")
		}
		lines = append(lines, fmt.Sprintf("%-10s %8v  %s", s.name, took, verdict))
		fmt.Fprintf(r.out, "--- %s: %s in %v\n", s.name, verdict, took)
	}
	fmt.Fprintf(r.out, "\n=== summary\n%s\n", strings.Join(lines, "\n"))
	r.results.report(r.out)
	passed, failed, skipped := r.results.count()
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return failed == 0
}

// command prepares a program in the tree's root with extra environment. When ctx ends, it and its children are killed.
func (r *runner) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.root
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = 10 * time.Second
	group(c)
	return c
}

// do runs a program with its output shown.
func (r *runner) do(ctx context.Context, env []string, name string, args ...string) error {
	fmt.Fprintf(r.out, "$ %s\n", strings.Join(append(append([]string{}, env...), append([]string{name}, args...)...), " "))
	c := r.command(ctx, env, name, args...)
	c.Stdout, c.Stderr = r.out, r.out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return nil
}

// output runs a program and gives its lines.
func (r *runner) output(ctx context.Context, env []string, name string, args ...string) ([]string, error) {
	c := r.command(ctx, env, name, args...)
	c.Stderr = r.out
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.Fields(string(b)), nil
}
