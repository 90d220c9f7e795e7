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

// workerVar is the environment variable of a test binary that is a worker: worker number, run and link.
const workerVar = "DDK_VALIDATE_WORKER"

// TestOptions are the parameters of TestDriver.
type TestOptions struct {
	Catalog   *Catalog // the cases; usually cisuite.Catalog()
	Profile   string   // "" means "minimal"
	Link      string   // "" means the driver's default
	Seed      uint64   // 0 means 1, so that runs of go test are repeatable
	Select    Selection
	Waivers   []Waiver
	Timeout   time.Duration     // of an ordinary case; 0 means DefaultTimeout
	Workers   int               // 0 means Driver.DefaultWorkers
	Values    map[string]string // for Driver.Open
	InProcess bool              // no worker processes, for debuggers; a hang or panic of the driver ends the test
}

// TestDriver certifies a driver within a test. Each case is a subtest, which is skipped or fails as in a run of the
// command. The cases run in worker processes: this test binary again, with only the calling test selected. So the
// calling test must reach TestDriver in every run, and should do nothing costly before.
//
// The flag -run 'TestX/case' selects the cases that match.
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
	set := Setting{
		Options: Options{Link: o.Link, Seed: o.Seed, Run: os.Getpid(), Values: o.Values}, Profile: o.Profile,
		Scale: float64(o.Timeout) / float64(DefaultTimeout),
	}
	if v := os.Getenv(workerVar); v != "" {
		if _, err := fmt.Sscanf(v, "%d/%d/%s", &set.Worker, &set.Run, &set.Link); err != nil && set.Run == 0 {
			t.Fatalf("%s=%q: %v", workerVar, v, err)
		}
		if err := ServeWorker(t.Context(), o.Catalog, d, set); err != nil {
			t.Fatal(err)
		}
		return
	}
	sel, narrowed, err := selectByRunFlag(o.Catalog, o.Select, t.Name())
	if narrowed && err != nil {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{
		Catalog: o.Catalog, Driver: d, Select: sel, Setting: set, Waivers: o.Waivers, Workers: o.Workers,
		Command: os.Args, Test: t.Name(), Again: testWords(),
	}
	if !o.InProcess {
		p.Spawn = func(ctx context.Context, s Setting) *exec.Cmd {
			pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run="+pattern, "-test.count=1", "-test.timeout=0")
			cmd.Env = append(WorkerEnv(), fmt.Sprintf("%s=%d/%d/%s", workerVar, s.Worker, s.Run, s.Link))
			return cmd
		}
	}
	rep, err := p.Run(t.Context())
	if narrowed && IsNothing(err) {
		t.Skip(err) // the cases that -run selects are not in the profile
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

// reportTo reports a result as that of a subtest.
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
		t.Errorf("the case could not be completed: %s", r.Reason)
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

// failureLines returns what a test prints for a failed case: failures, evidence, and the command that runs the case
// again.
func failureLines(rep *Report, r *Result) []string {
	var out []string
	for _, f := range r.Failures {
		out = append(out, fmt.Sprintf("%s (%s, %s): %s\n%s", f.Rule, r.Section, r.Level, f, f.Stacks))
	}
	if r.Flaky != "" {
		out = append(out, "flaky: "+r.Flaky)
	}
	out = append(out, r.Log...)
	return append(out, "again: "+rep.Again(r.Case))
}
