package cli

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os/exec"
	"strings"
	"time"

	"ciddk/validate"
	"ciddk/validate/mutant"
	"ciddk/validate/report"
)

type selfCmd struct {
	Driver string   `arg:"" optional:"" help:"Driver without faults; see 'drivers'. Default: the first one."`
	Mutant patterns `help:"Only mutants whose name matches." placeholder:"GLOB"`
	Shard  string   `help:"Only part I of N parts." placeholder:"I/N"`
	All    bool     `help:"Run every case over each mutant, not only those of the requirement that it breaks."`
	// Compound is a number of mutants, instead of those of the suites.
	Compound int           `help:"Draw N mutants whose fault needs two features, by --seed." placeholder:"N"`
	Case     patterns      `help:"Run only these cases. With --all: limit the others." placeholder:"GLOB"`
	Quick    time.Duration `help:"With --all: only quick cases of other requirements." placeholder:"10ms"`
	Results  string        `help:"Go on where this file ends: a line for each mutant." placeholder:"FILE"`
	Time     time.Duration `help:"End after this time, without the rest of the mutants." placeholder:"10m"`
	Whole    bool          `help:"A mutant that does not apply to the driver counts as escaped."`
	List     bool          `help:"List the mutants; run nothing."`
	targetFlags
	Workers   *int `help:"Number of mutants at the same time. Default: 2; exclusive driver: 1."`
	InProcess bool `help:"Run the cases in this process, for debuggers."`
}

// Run executes the command.
func (s *selfCmd) Run(a *app) error {
	set := a.mutants
	if s.Compound > 0 {
		set = mutant.Compounds(max(s.Seed, 1), s.Compound)
	}
	if s.Shard != "" {
		var err error
		if s.Mutant, err = s.shard(set); err != nil {
			return err
		}
	}
	results := &resultsFile{}
	if s.Results != "" {
		var err error
		if results, err = openResults(s.Results); err != nil {
			return fmt.Errorf("--results: %w", err)
		}
		defer results.Close()
		if s.Mutant = results.rest(set, s.Mutant); len(s.Mutant) == 0 {
			fmt.Fprintf(a.Stdout, "%s has all %d mutants\n", s.Results, len(results.names))
			return nil
		}
	}
	if s.List {
		for _, m := range set.All() {
			if len(s.Mutant) > 0 && !s.Mutant.match(m.Name) {
				continue
			}
			fmt.Fprintf(a.Stdout, "%-28s %-18s %s\n", m.Name, m.Breaks, m.Does)
		}
		return nil
	}
	if err := s.check(validate.DefaultTimeout / 2); err != nil {
		return err
	}
	if s.Profile == "" {
		s.Profile = fullProfile
	}
	d, err := a.driver(s.Driver, s.Through)
	if err != nil {
		return err
	}
	workers, err := workersOf(d, s.Workers)
	if err != nil {
		return err
	}
	if s.Seed == 0 {
		s.Seed = 1
	}
	style := newProgress(a, false).style
	p := mutant.Plan{
		Catalog: a.catalog, Driver: d, Set: set, Names: s.Mutant, All: s.All, Quick: s.Quick, Whole: s.Whole,
		Cases: s.Case, Setting: s.setting(), Workers: workers,
	}
	var unsaved error
	var hasEscaped bool
	p.Progress = func(o mutant.Outcome) {
		word, tail := style.Status(validate.Pass), "caught by "+o.By+": "+o.Finding
		if len(o.Catchers) > 1 {
			tail = "caught by " + strings.Join(o.Catchers, ", ") + ": " + o.Finding
		}
		switch {
		case o.Skipped:
			word, tail = style.Status(validate.Skip), "not applicable: "+o.Why
		case !o.Caught:
			word, tail = style.Status(validate.Fail), "ESCAPED: "+o.Why
			hasEscaped = true
		case s.All && len(o.Others) > 0:
			tail += "; failed as well: " + strings.Join(o.Others, ", ")
		}
		if results.File != nil {
			unsaved = errors.Join(unsaved, results.add(o))
		}
		fmt.Fprintf(a.Stdout, "%s %-26s %-18s %s\n", word, o.Mutant.Name, o.Mutant.Breaks, oneLine(tail))
	}
	if !s.InProcess {
		p.Spawn = func(ctx context.Context, set validate.Setting, m string) *exec.Cmd {
			return a.spawn(d.Name, *s.Timeout, m)(ctx, set)
		}
	}
	if len(set.All()) == 0 {
		return &exitError{validate.ExitNothing, errors.New("no mutant is linked into this program")}
	}
	ctx := a.ctx
	if s.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Time)
		defer cancel()
	}
	res, err := mutant.Self(ctx, p)
	if a.ctx.Err() == nil && ctx.Err() != nil {
		fmt.Fprintf(a.Stdout, "\nended after --time %v\n", s.Time)
		if unsaved == nil && hasEscaped {
			return &exitError{code: validate.ExitFailed}
		}
		return unsaved
	}
	if validate.IsNothing(err) {
		text := strings.Replace(err.Error(), "no case matches", "no mutant matches", 1)
		return &exitError{validate.ExitNothing, errors.New(text)}
	}
	if err = errors.Join(err, unsaved); err != nil {
		return err
	}
	if !res.Baseline.Verdict.Certified {
		report.Failures(a.Stdout, res.Baseline, style)
	}
	fmt.Fprintf(a.Stdout, "\n%s\n", res.Line())
	switch {
	case len(res.Escaped()) > 0:
		return &exitError{code: validate.ExitFailed}
	case len(res.Skipped()) == len(res.Outcomes):
		return &exitError{code: validate.ExitNothing}
	}
	return nil
}

// shard returns the names of the mutants in the part that --shard selects, of those that --mutant selects. The part of
// a mutant follows from its name, so that others that come or go do not move it.
func (s *selfCmd) shard(set *mutant.Set) (patterns, error) {
	i, n, err := parseShard(s.Shard)
	if err != nil {
		return nil, err
	}
	var names patterns
	for _, m := range set.All() {
		if len(s.Mutant) > 0 && !s.Mutant.match(m.Name) {
			continue
		}
		if h := crc32.ChecksumIEEE([]byte(m.Name)); h%uint32(n) == uint32(i-1) {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil, &exitError{validate.ExitNothing, fmt.Errorf("--shard %s: no mutant is in this part", s.Shard)}
	}
	return names, nil
}
