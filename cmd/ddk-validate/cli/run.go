package cli

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ciddk/internal/input"
	"ciddk/validate"
	"ciddk/validate/report"
	"ciddk/validate/req"
)

type runCmd struct {
	Driver string `arg:"" optional:"" help:"Driver to certify; see 'drivers'. Default: the first one."`
	runFlags
}

// runFlags are the flags of run and wire.
type runFlags struct {
	targetFlags
	args   []string `kong:"-"`
	chosen bool     // the profile follows from the driver's claims

	Case       patterns `help:"Only cases whose id matches, such as 'rc.*'." placeholder:"GLOB" group:"Selection"`
	Exclude    patterns `help:"No cases whose id matches." placeholder:"GLOB" group:"Selection"`
	Req        patterns `help:"Only cases that check or touch these requirements." placeholder:"GLOB" group:"Selection"`
	Section    patterns `help:"Only cases for requirements of a section, such as 'SAS 2.1'." group:"Selection"`
	Feature    patterns `help:"Only cases of this feature." group:"Selection"`
	Level      patterns `help:"Only cases for requirements of a level: MUST, SHOULD, MAY, INFO." group:"Selection"`
	Shard      string   `help:"Only part I of N parts." placeholder:"I/N" group:"Selection"`
	From       string   `help:"JSON report with the defaults for driver, profile, link and seed." group:"Selection"`
	OnlyFailed bool     `help:"With --from: only the cases that did not pass in that report." group:"Selection"`

	Repeat    int    `default:"1" help:"Number of attempts of each case; all must pass." group:"Execution"`
	Shuffle   bool   `help:"Run the cases in an order that follows from the seed." group:"Execution"`
	FailFast  bool   `help:"Stop at the first failure." group:"Execution"`
	Workers   *int   `help:"Number of worker processes. Default: 2; exclusive driver: 1." group:"Execution"`
	InProcess bool   `help:"Run cases in this process, for debuggers. A panic ends the run." group:"Execution"`
	Strict    bool   `help:"Failures of SHOULD requirements deny the certificate, too." group:"Execution"`
	Expect    string `help:"File with expected failures and their reasons." placeholder:"FILE" group:"Execution"`

	JSON     string `name:"json" help:"Write a JSON report." placeholder:"FILE" group:"Output"`
	JUnit    string `name:"junit" help:"Write a report in JUnit XML." placeholder:"FILE" group:"Output"`
	HTML     string `name:"html" help:"Write a report as a single HTML file." placeholder:"FILE" group:"Output"`
	Pcap     string `help:"Keep packet captures of cases that did not pass." placeholder:"DIR" group:"Output"`
	PcapAll  bool   `help:"With --pcap: keep captures of passed cases, too." group:"Output"`
	Baseline string `help:"Compare with an earlier JSON report." placeholder:"FILE" group:"Output"`
	Quiet    bool   `short:"q" help:"Print only failures and the verdict." group:"Output"`
}

// Run executes the command.
func (r *runCmd) Run(a *app) error {
	a = a.of(r.Driver)
	var from *validate.Report
	if r.From != "" {
		var err error
		if from, err = readReport(r.From); err != nil {
			return err
		}
		r.takeOver(from, a.args)
	} else if r.OnlyFailed {
		return errors.New("--only-failed needs --from REPORT")
	}
	r.args = a.args[1:]
	p, err := r.plan(a, from)
	if err != nil {
		return err
	}
	var old *validate.Report
	if r.Baseline != "" {
		if old, err = readReport(r.Baseline); err != nil {
			return err
		}
	}
	if err := r.prepare(); err != nil {
		return err
	}
	out := newProgress(a, r.Quiet)
	if r.chosen && r.Profile != fullProfile {
		out.first = fmt.Sprintf(
			"profile %s: the widest that the driver's claims allow (--profile chooses another)", r.Profile,
		)
	}
	p.Progress = out.update
	rep, err := p.Run(a.ctx)
	out.stop()
	if err != nil {
		return err
	}
	r.print(a, rep, out.style)
	if old != nil {
		r.printFlips(a, rep, old)
	}
	if a.Getenv("GITHUB_ACTIONS") == "true" {
		report.Annotations(a.Stdout, rep)
	}
	fmt.Fprintln(a.Stdout)
	fmt.Fprintln(a.Stdout, out.style.Verdict(rep))
	if err := r.write(a, rep); err != nil {
		return &exitError{validate.ExitHarness, err}
	}
	if code := rep.Exit(); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// takeOver sets what the command line does not set from a report. kong has set the defaults already, so takeOver looks
// at the arguments.
func (r *runCmd) takeOver(from *validate.Report, args []string) {
	given := func(flag string) bool {
		for _, a := range args {
			if a == flag || strings.HasPrefix(a, flag+"=") {
				return true
			}
		}
		return false
	}
	if r.Driver == "" {
		r.Driver = from.Run.Driver
	}
	if !given("--profile") {
		r.Profile = from.Run.Profile
	}
	if !given("--link") {
		r.Link = from.Run.Link
	}
	if !given("--seed") {
		r.Seed = from.Run.Seed
	}
}

// maxInput is the size of the largest report.
const maxInput = 256 << 20

func readReport(path string) (*validate.Report, error) {
	b, err := input.Read(path, maxInput)
	if err != nil {
		return nil, err
	}
	rep, err := validate.ReadReport(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rep, nil
}

// plan returns the plan that the flags describe.
func (r *runCmd) plan(a *app, from *validate.Report) (*validate.Plan, error) {
	if err := r.check(validate.DefaultTimeout); err != nil {
		return nil, err
	}
	d, err := a.driver(r.Driver, r.Through)
	if err != nil {
		return nil, err
	}
	if r.Profile == "" {
		r.Profile = fullProfile
		if name := a.suggestProfile(d, &r.targetFlags); name != "" && !r.InProcess {
			r.Profile = name
		}
		r.chosen = true
	}
	if r.Seed == 0 {
		r.Seed = rand.Uint64()>>1 | 1
	}
	sel := validate.Selection{Cases: r.Case, Exclude: r.Exclude, Requirements: r.Req, Sections: r.Section}
	for _, f := range r.Feature {
		sel.Features = append(sel.Features, validate.Feature(f))
	}
	for _, s := range r.Level {
		var l req.Level
		if err := l.UnmarshalText([]byte(s)); err != nil {
			return nil, fmt.Errorf("--level: %w", err)
		}
		sel.Levels = append(sel.Levels, l)
	}
	if r.OnlyFailed {
		failed := from.Failed()
		if len(failed) == 0 {
			return nil, &validate.NothingSelected{What: "--only-failed: nothing failed in " + r.From}
		}
		sel.Cases = append(sel.Cases, failed...)
	}
	if r.Shard != "" {
		var err error
		if sel.Shard, sel.Of, err = parseShard(r.Shard); err != nil {
			return nil, err
		}
	}
	if r.Repeat < 1 {
		return nil, fmt.Errorf("--repeat %d: want at least 1", r.Repeat)
	}
	workers, err := workersOf(d, r.Workers)
	if err != nil {
		return nil, err
	}
	p := &validate.Plan{
		Catalog: a.catalog, Driver: d, Select: sel, Setting: r.setting(), Workers: workers, Repeat: r.Repeat,
		Shuffle: r.Shuffle, FailFast: r.FailFast, Strict: r.Strict, Command: a.args,
		Again: r.again(d),
	}
	p.Setting.PcapDir, p.Setting.PcapAll = r.Pcap, r.PcapAll
	if !r.InProcess {
		p.Spawn = a.spawn(d.Name, *r.Timeout, "")
	}
	if r.Expect != "" {
		b, err := input.Read(r.Expect, maxInput)
		if err != nil {
			return nil, err
		}
		if p.Waivers, err = validate.ParseWaivers(b); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Expect, err)
		}
	}
	p.Waivers = append(slices.Clone(d.Waivers), p.Waivers...)
	return p, nil
}

// again returns the words that run the plan again, without a selection of cases, a seed that is drawn, or reports.
func (r *runCmd) again(d validate.Driver) []string {
	words := append(validate.Program(), before(os.Args[1:], r.args)...)
	words = append(words, "run", d.Name, "--profile", r.Profile)
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	link, _ := d.LinkOr(r.Link) // a link that does not exist is an error of the plan
	add("--link", link)
	add("--seed", strconv.FormatUint(r.Seed, 10))
	for _, k := range slices.Sorted(maps.Keys(r.Set)) {
		add("--set", k+"="+r.Set[k])
	}
	if *r.Timeout != validate.DefaultTimeout {
		add("--timeout", r.Timeout.String())
	}
	if r.Repeat > 1 {
		add("--repeat", strconv.Itoa(r.Repeat))
	}
	add("--expect", r.Expect)
	add("--pcap", r.Pcap)
	if r.Strict {
		words = append(words, "--strict")
	}
	if r.InProcess {
		words = append(words, "--in-process")
	}
	return words
}

// before returns the arguments of the program that precede those of the certifier, such as a command of a vendor's.
func before(all, args []string) []string {
	if n := len(all) - len(args); n > 0 && slices.Equal(all[n:], args) {
		return all[:n]
	}
	return nil
}

// prepare creates the folders of all output files before the run, and checks that the files can be written, so that a
// mistyped path does not cost a run. It does not change existing files.
func (r *runCmd) prepare() error {
	for _, x := range []struct{ flag, file string }{{"--json", r.JSON}, {"--junit", r.JUnit}, {"--html", r.HTML}} {
		switch x.file {
		case "":
			continue
		case "-":
			return fmt.Errorf(
				"%s -: give the name of a file (standard output has the progress and the verdict)", x.flag,
			)
		}
		if err := writable(x.file); err != nil {
			return &exitError{validate.ExitHarness, fmt.Errorf("%s: %w", x.flag, err)}
		}
	}
	if r.Pcap != "" {
		if err := os.MkdirAll(r.Pcap, 0o755); err != nil {
			return &exitError{validate.ExitHarness, err}
		}
	}
	return nil
}

// writable returns an error if a file cannot be written. It leaves no new file behind.
func writable(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	old, err := os.Stat(file)
	if err == nil && !old.Mode().IsRegular() && !old.IsDir() {
		return nil // a pipe, for example, may be opened only once
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil || old != nil {
		return err
	}
	return os.Remove(file)
}

func (r *runCmd) print(a *app, rep *validate.Report, s report.Style) {
	report.Failures(a.Stdout, rep, s)
	if !r.Quiet {
		report.Summary(a.Stdout, rep, s)
	}
}

func (r *runCmd) printFlips(a *app, rep, old *validate.Report) {
	globs := len(r.Case) + len(r.Exclude) + len(r.Req) + len(r.Section) + len(r.Feature) + len(r.Level)
	flips := rep.Compare(old, globs == 0 && r.Shard == "" && !r.OnlyFailed)
	worse := 0
	for _, f := range flips {
		if f.Worse() {
			worse++
		}
	}
	fmt.Fprintf(a.Stdout, "\nCompared with %s: %d changed, %d of them regressions\n", r.Baseline, len(flips), worse)
	for _, f := range flips {
		mark := " "
		if f.Worse() {
			mark = "!"
		}
		fmt.Fprintf(a.Stdout, "  %s %s\n", mark, f)
	}
}

// write writes the reports and prints their names.
func (r *runCmd) write(a *app, rep *validate.Report) error {
	for _, x := range []struct {
		name, path string
		write      func(*os.File) error
	}{
		{"json", r.JSON, func(f *os.File) error { return rep.WriteJSON(f) }},
		{"junit", r.JUnit, func(f *os.File) error { return report.JUnit(f, rep) }},
		{"html", r.HTML, func(f *os.File) error { return report.HTML(f, rep) }},
	} {
		if x.path == "" {
			continue
		}
		f, err := os.Create(x.path)
		if err != nil {
			return err
		}
		if err := errors.Join(x.write(f), f.Close()); err != nil {
			return fmt.Errorf("%s: %w", x.path, err)
		}
		fmt.Fprintf(a.Stdout, "%-6s %s\n", x.name, x.path)
	}
	if r.Pcap != "" {
		fmt.Fprintf(a.Stdout, "%-6s %s\n", "pcap", r.Pcap)
	}
	return nil
}
