package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"ciddk/validate"
	"ciddk/validate/explore"
)

type exploreCmd struct {
	Driver  string            `arg:"" optional:"" help:"Driver to explore; see 'drivers'. Default: the first one."`
	Link    string            `help:"Link of the driver; see 'drivers'. Default: its first one."`
	Through []string          `help:"Layer between explorer and driver: ${layers}." placeholder:"LAYER"`
	Seed    uint64            `default:"1" help:"Seed of all random choices. 0 draws one."`
	Set     map[string]string `help:"Setting of the driver; see 'drivers'." placeholder:"KEY=VALUE"`
	Time    time.Duration     `default:"1m" help:"How long to look."`
	Traces  uint64            `help:"Number of traces; 0: as many as there is time for."`
	First   uint64            `help:"Number of the first trace, to repeat a finding."`
	Steps   int               `default:"40" help:"Steps of a trace."`
	Rows    uint64            `default:"400" help:"Number of the first traces that combine features systematically."`
	Program string            `help:"Write a Go test that repeats a finding." placeholder:"FILE"`
	Verbose bool              `short:"v" help:"Report traces that failed and did not fail again."`
	Mutant  string            `hidden:""`
}

// Run executes the command.
func (e *exploreCmd) Run(a *app) error {
	d, err := a.driver(e.Driver, e.Through)
	if err != nil {
		return err
	}
	if e.Mutant != "" {
		m, err := a.mutants.Get(e.Mutant)
		if err != nil {
			return err
		}
		d = m.Driver(d)
	}
	if e.Link, err = d.LinkOr(e.Link); err != nil {
		return err
	}
	for e.Seed == 0 {
		e.Seed = rand.Uint64()
	}
	o := validate.Options{Link: e.Link, Seed: e.Seed, Run: os.Getpid(), Values: e.Set, Impair: true}
	if err := d.CheckSettings(o); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(a.ctx, e.Time)
	defer stop()
	c := explore.Config{
		Open: func(ctx context.Context) (*validate.Target, error) { return d.Open(ctx, o) },
		Seed: e.Seed, Traces: e.Traces, First: e.First, Steps: e.Steps,
		Rows: e.Rows, Pairs: &explore.Pairs{},
	}
	if e.Verbose {
		c.Verbose = func(s string) { fmt.Fprintln(a.Stderr, s) }
	}
	n, f, err := explore.Explore(ctx, c)
	if err != nil {
		return &exitError{validate.ExitHarness, err}
	}
	if f == nil {
		fmt.Fprintf(a.Stdout, "%d traces with seed %d: no rule is broken.\n", n, e.Seed)
		if visited, permitted := c.Pairs.Count(); permitted > 0 {
			fmt.Fprintf(a.Stdout, "They visited %d of the %d pairs of features that the adapters permit.\n", visited,
				permitted)
		}
		return nil
	}
	if r, ok := a.catalog.Requirement(string(f.Violation.Rule)); ok {
		f.Text = r.Text
	}
	fmt.Fprint(a.Stdout, f.Story())
	if e.Program != "" {
		if err := os.WriteFile(e.Program, []byte(f.Program()), 0o644); err != nil {
			return errors.Join(&exitError{code: validate.ExitFailed}, err)
		}
	}
	return &exitError{code: validate.ExitFailed}
}
