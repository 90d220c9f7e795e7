package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ciddk/internal/modroot"
)

// Exit statuses.
const (
	exitLow   = 1 // the score is below the floor
	exitUsage = 2
	exitError = 3 // the tool failed
)

// minJudged is the number of mutants below which a score is not compared with the floor.
const minJudged = 8

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	n, jobs, floor                int
	seed                          uint64
	packages, out, survivors, dir string
	at, cases                     string
	hasTests, isList, isUnreached bool
	budget                        time.Duration
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	fs := flag.NewFlagSet("mutate", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.n, "n", 300, "mutants to judge")
	fs.Uint64Var(&o.seed, "seed", 1, "seed of the sample")
	fs.StringVar(&o.packages, "packages", strings.Join(defaultFolders(), ","), "folders, with those below them")
	fs.BoolVar(&o.hasTests, "tests", false, "let the tests of the package judge the mutants that the certifier accepts")
	fs.IntVar(&o.jobs, "j", max(1, runtime.NumCPU()/2), "mutants at a time")
	fs.StringVar(&o.out, "out", "", "file of results, one JSON object on each line; a run resumes from it")
	fs.StringVar(&o.survivors, "survivors", "", "judge the survivors in this file of results instead of a sample")
	fs.StringVar(&o.at, "at", "", "judge all mutants of these places, such as sma/trap.go:227,cm/lookup.go")
	fs.StringVar(&o.cases, "case", "", "judge by these cases only, a list of patterns: to try new cases")
	fs.DurationVar(&o.budget, "for", 0, "begin no mutant after this time, and end after twice it; 0: no limit")
	fs.IntVar(&o.floor, "floor", 0, "end with status 1 if certifier and tests together kill less than this percentage")
	fs.BoolVar(&o.isList, "list", false, "print the mutants of the sample and stop")
	fs.BoolVar(&o.isUnreached, "unreached", false, "print the lines that no run executes, and stop")
	fs.StringVar(&o.dir, "dir", "", "keep overlays and binaries in this folder, and use those that are there")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.at != "" && o.survivors != "":
		err = errors.New("-at and -survivors each name the mutants: give one of them")
	case o.cases != "" && o.out != "":
		err = errors.New("results by some cases are no score: -out cannot keep those of -case")
	case o.n < 1 || o.jobs < 1:
		err = errors.New("-n and -j need at least 1")
	}
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
	}
	return o, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return exitUsage
	}
	root, err := modroot.Find()
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return exitUsage
	}
	results, commit, err := measure(ctx, &o, root, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "mutate:", err)
		return exitError
	}
	if o.isList || o.isUnreached {
		return 0
	}
	printReport(stdout, results, o.seed, commit)
	if s := scoreOf(results); o.floor > 0 && s.judged() >= minJudged && s.together() < o.floor {
		fmt.Fprintf(stderr, "mutate: %d%% of the mutants killed, want at least %d%%\n", s.together(), o.floor)
		return exitLow
	}
	return 0
}

// measure draws the sample and judges it.
func measure(ctx context.Context, o *options, root string, stdout io.Writer) ([]result, string, error) {
	all, exclusions, err := load(root, strings.Split(o.packages, ","))
	if err != nil {
		return nil, "", err
	}
	order := shuffle(all, o.seed)
	if o.survivors != "" {
		if order, err = survivorsOf(o.survivors, all, stdout); err != nil {
			return nil, "", err
		}
		o.n = len(order)
	}
	if o.at != "" {
		if order, err = mutantsAt(all, strings.Split(o.at, ",")); err != nil {
			return nil, "", err
		}
		o.n = len(order)
	}
	if o.isList {
		list(stdout, order, exclusions, o.n)
		return nil, "", nil
	}
	if err := limitMemory(); err != nil {
		return nil, "", err
	}
	dir, remove, err := o.folder()
	if err != nil {
		return nil, "", err
	}
	defer remove()
	j := newJudge(root, dir)
	j.out = stdout
	if o.isUnreached {
		return nil, "", unreached(ctx, j, all, exclusions, stdout)
	}
	commit, hasChanges := version(ctx, root)
	file, done, err := openResults(o.out, commit, hasChanges)
	if err != nil {
		return nil, "", err
	}
	// A short run has no time for runs that judge no mutant.
	j.hasTests, j.keeps, j.cases = o.hasTests, o.dir != "", o.cases
	j.hasReach = o.budget == 0 && o.cases == ""
	s := sampling{n: o.n, jobs: o.jobs, exclusions: exclusions, done: done, prepare: j.prepare, judge: j.judge,
		out: stdout, save: func(r *result) error { r.Commit = commit; return file.add(r) }}
	if o.budget > 0 {
		end := time.Now().Add(o.budget)
		s.isOver = func() bool { return time.Now().After(end) }
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, 2*o.budget, errLate)
		defer cancel()
	}
	results, err := s.run(ctx, order)
	if e := file.close(); err == nil {
		err = e
	}
	return results, commit, err
}

// folder returns the folder for overlays and binaries, and a function that removes it unless -dir names it.
func (o *options) folder() (string, func(), error) {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "ddk-mutate-")
		return dir, func() { os.RemoveAll(dir) }, err
	}
	dir, err := filepath.Abs(o.dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	return dir, func() {}, err
}

// load returns all mutants of the folders, and the exclusions.
func load(root string, folders []string) ([]mutant, []exclusion, error) {
	files, err := sources(root, folders)
	if err != nil {
		return nil, nil, err
	}
	b, err := os.ReadFile(filepath.Join(root, "ci", "status.go"))
	if err != nil {
		return nil, nil, err
	}
	statuses, err := statusNames(b)
	if err != nil {
		return nil, nil, err
	}
	var all []mutant
	for _, name := range files {
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, nil, err
		}
		found, err := find(name, src, statuses)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, found...)
	}
	b, err = os.ReadFile(filepath.Join(root, "tools", "mutate", "exclusions.yaml"))
	if err != nil {
		return nil, nil, err
	}
	exclusions, err := parseExclusions(b)
	return all, exclusions, err
}

// version returns the commit, and whether the tree differs from it.
func version(ctx context.Context, root string) (commit string, hasChanges bool) {
	git := func(args ...string) (string, error) {
		c := exec.CommandContext(ctx, "git", args...)
		c.Dir = root
		b, err := c.Output()
		return strings.TrimSpace(string(b)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown", true
	}
	if s, err := git("status", "--porcelain", "--untracked-files=no"); err != nil || s != "" {
		return commit + " with changes", true
	}
	return commit, false
}

func list(w io.Writer, order []mutant, exclusions []exclusion, n int) {
	fmt.Fprintf(w, "%d mutants\n", len(order))
	for i := range order[:min(n, len(order))] {
		m := &order[i]
		why := ""
		if e := exclusionOf(exclusions, m); e != nil {
			why = "  (excluded: " + e.Reason + ")"
		}
		fmt.Fprintf(w, "%s:%d: %s in %s: %s%s\n", m.File, m.Line, m.Operator, m.Function, shorten(m.change()), why)
	}
}
