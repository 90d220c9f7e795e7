package validate

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// workerVar is set in the environment of a test binary that is a worker: it holds the worker's number and the run.
const workerVar = "DDK_VALIDATE_WORKER"

// TestOptions is how TestDriver runs.
type TestOptions struct {
	Catalog   *Catalog // what to run; usually cisuite.Catalog()
	Profile   string   // empty: "minimal"
	Link      string   // empty: the driver's first
	Seed      uint64   // 0: 1, so that a plain go test is repeatable
	Select    Selection
	Waivers   []Waiver
	Timeout   time.Duration     // of an ordinary case; 0: DefaultTimeout
	Workers   int               // 0: Driver.DefaultWorkers
	Values    map[string]string // for Driver.Open
	InProcess bool              // no worker processes: for debuggers and coverage; a hang or panic of the driver then ends the test
}

// TestDriver certifies a driver within a test: one subtest for each case, skipped and failed as in a run of the command. The cases run in worker
// processes: this test binary again, with only the calling test selected. So the calling test must do nothing costly before it
// calls TestDriver, and must reach it on every run.
//
// go test -run 'TestX/case' runs the cases that match, and no others.
func TestDriver(t *testing.T, d Driver, o TestOptions) {
	t.Helper()
	if o.Catalog == nil {
		t.Fatal("validate.TestDriver: TestOptions.Catalog is nil; use cisuite.Catalog()")
	}
	if o.Profile == "" {
		o.Profile = "minimal"
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	set := Setting{Options: Options{Link: o.Link, Seed: o.Seed, Run: os.Getpid(), Values: o.Values}, Profile: o.Profile,
		Scale: float64(o.Timeout) / float64(DefaultTimeout)}
	if v := os.Getenv(workerVar); v != "" {
		if _, err := fmt.Sscanf(v, "%d/%d/%s", &set.Worker, &set.Run, &set.Link); err != nil && set.Run == 0 {
			t.Fatalf("%s=%q: %v", workerVar, v, err)
		}
		if err := ServeWorker(t.Context(), o.Catalog, d, set); err != nil {
			t.Fatal(err)
		}
		return
	}
	sel, narrowed, err := asked(o.Catalog, o.Select, t.Name())
	if narrowed && err != nil {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{Catalog: o.Catalog, Driver: d, Select: sel, Setting: set, Waivers: o.Waivers, Workers: o.Workers, Command: os.Args, Test: t.Name()}
	if !o.InProcess {
		p.Spawn = func(ctx context.Context, s Setting) *exec.Cmd {
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.count=1", "-test.timeout=0")
			cmd.Env = append(WorkerEnv(), fmt.Sprintf("%s=%d/%d/%s", workerVar, s.Worker, s.Run, s.Link))
			return cmd
		}
	}
	rep, err := p.Run(t.Context())
	if narrowed && IsNothing(err) {
		t.Skip(err) // what -run names is outside of the profile
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range rep.Results {
		r := &rep.Results[i]
		t.Run(r.Case, func(t *testing.T) { reportTo(t, rep, r) })
	}
	for _, r := range rep.Remarks {
		t.Log(r)
	}
	if rep.Run.Unopened != "" {
		t.Error(rep.Run.Unopened)
	}
	if rep.Verdict.Outcome == OutcomeUntested {
		for _, u := range rep.Untested {
			t.Errorf("%s is claimed and not tested: %s", u.Claim, u.Why)
		}
	}
	t.Log(rep.Verdict.Line)
}

// reportTo gives a result the form of a subtest.
func reportTo(t *testing.T, rep *Report, r *Result) {
	for _, n := range r.Notes {
		t.Logf("%s: %s", n.Kind, n.Text)
	}
	switch {
	case r.Status == Skip:
		t.Skip(r.Reason)
	case r.Status == Waived:
		t.Skip("waived: " + r.Reason)
	case r.Status == Error:
		t.Errorf("the certifier could not judge: %s", r.Reason)
	case r.Status == Inconclusive && rep.Decisive(r):
		t.Errorf("inconclusive, which is no finding against the driver: %s", r.Reason)
	case r.Status == Inconclusive:
		t.Skip("inconclusive: " + r.Reason)
	case r.Status == Fail, r.Status == Flaky:
		for _, l := range failureLines(rep, r) {
			t.Log(l)
		}
		if rep.Decisive(r) {
			t.Fail()
		}
	}
}

// failureLines is what a test prints of a failed case: findings, evidence, and the command that runs it again.
func failureLines(rep *Report, r *Result) []string {
	var out []string
	for _, f := range r.Failures {
		out = append(out, fmt.Sprintf("%s (%s, %s): %s\n%s", f.Rule, r.Section, r.Level, f, f.Stacks))
	}
	if r.Flaky != "" {
		out = append(out, "flaky: "+r.Flaky)
	}
	out = append(out, r.Log...)
	return append(out, "again: "+rep.TestCommand(r.Case))
}
