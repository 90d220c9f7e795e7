package cli_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jstemmer/go-junit-report/v2/junit"
	"github.com/rogpeppe/go-internal/testscript"

	"ciddk/ci"
	"ciddk/cmd/ddk-validate/cli"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/mutant"
	"ciddk/validate/suite/cisuite"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ddk-validate": func() { os.Exit(cli.Main(config(), os.Args[1:])) },
		"validate-far": func() { // the program of the driver far
			fmt.Println(os.Args)
			os.Exit(6)
		},
	})
}

// config returns a Config with fake adapters: one that is right, and others with a fault.
func config() cli.Config {
	drv := func(name string, f fakehca.Faults) validate.Driver {
		return validate.Driver{
			Name: name, Description: "adapter in memory", Links: []string{"ethernet", "infiniband"},
			Open: func(_ context.Context, o validate.Options) (*validate.Target, error) {
				if o.Values["absent"] != "" {
					return nil, errors.New("no device; plug one in")
				}
				link := ci.LinkEthernet
				if o.Link == "infiniband" {
					link = ci.LinkInfiniBand
				}
				h := fakehca.New(0xabc, link, f)
				return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live, Version: "0.1", Capture: capture}, nil
			},
		}
	}
	card := drv("card", fakehca.Faults{})
	card.Exclusive = true
	card.Settings = map[string]string{"absent": "any value, for no device"}
	// busy is a card that can be opened only once in a process, although its driver is not marked Exclusive.
	busy, opened := drv("busy", fakehca.Faults{}), false
	open := busy.Open
	busy.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		if opened {
			return nil, errors.New("card is busy")
		}
		opened = true
		return open(ctx, o)
	}
	return cli.Config{
		Elsewhere: []cli.Elsewhere{{Driver: "far", Description: "far away", Program: "validate-far"},
			{Driver: "lost", Description: "nowhere", Program: "validate-lost", Build: "make lost"}},
		Name: "ddk-validate",
		Drivers: append([]validate.Driver{
			drv("good", fakehca.Faults{}),
			drv("zero", fakehca.Faults{AcceptZero: true}),
			drv("crash", fakehca.Faults{CrashOn: "PD.CreateCQ"}),
			drv("hang", fakehca.Faults{HangOn: "QP.Destroy"}),
			card, busy,
			lossy(),
		}, stubborn()...),
		Suites:  []validate.Suite{suite(), attempts()},
		Mutants: [][]mutant.Mutant{mutant.Basic()},
	}
}

// suite returns the part of the channel interface's suite that the fake adapter supports, so that these tests do not
// change when the suite grows.
func suite() validate.Suite {
	s := cisuite.Suite()
	s.Cases = slices.DeleteFunc(s.Cases, func(c validate.Case) bool {
		return !strings.HasPrefix(c.ID, "claims.") && !slices.Contains(supported, c.ID)
	})
	return s
}

// supported are the cases that the fake adapter supports, without those of the area claims.
var supported = []string{
	"open.guid", "open.unknown", "open.arguments", "open.twice", "open.reopen", "open.close-busy", "query.limits",
	"query.limits-connection", "query.ports", "query.page-sizes", "query.snapshot", "pd.types", "pd.busy", "pd.stale",
	"pd.cq-from-stale", "cq.create.sizes", "cq.create.bad-size", "cq.poll.empty", "cq.destroy.busy", "cq.stale",
	"cq.other-pd", "qp.create.reset", "qp.create.granted", "qp.create.numbers", "qp.create.limits", "stale.qp.query",
}

// lossyGUID is the GUID of lossy's adapters. The cases of attempts depend on it.
const lossyGUID = 0xabd

// lossy returns a driver with two links. The first may lose packets; the second is in memory and cannot.
func lossy() validate.Driver {
	open := func(_ context.Context, o validate.Options) (*validate.Target, error) {
		h := fakehca.New(lossyGUID, ci.LinkEthernet, fakehca.Faults{})
		return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live, Lossless: o.Link == "memory"}, nil
	}
	return validate.Driver{Name: "lossy", Links: []string{"cable", "memory"}, Open: open}
}

// attempts returns cases whose attempts differ or lose traffic.
func attempts() validate.Suite {
	one := func(id string, run func(*validate.T)) validate.Case {
		body := func(t *validate.T) {
			if t.HCA().Info().GUID != lossyGUID {
				t.Skip("of other drivers")
			}
			run(t)
		}
		return validate.Case{
			ID:           id,
			Title:        "title of " + id,
			Requirements: []string{"SAS-0-01"},
			Feature:      validate.FeatureCore,
			Run:          body,
		}
	}
	loss := validate.Failure{
		Where: "completion 1 of 1", Expected: "success", Got: "transport retries exhausted", Doubt: validate.DoubtLoss,
	}
	return validate.Suite{Cases: []validate.Case{
		one("attempt.flaky", func(t *validate.T) {
			if t.Rerun() == 0 {
				t.Step("the first step")
				t.Failf("somewhere", "one thing", "another")
			}
		}),
		one("attempt.loss", func(t *validate.T) { t.Fail(loss) }),
		one("attempt.once", func(t *validate.T) {
			if t.Rerun() == 0 {
				t.Fail(loss)
			}
		}),
		one("attempt.unclear", func(t *validate.T) { t.Inconclusive("the relay did not see the packet") }),
	}}
}

// capture writes a file as a driver would. It writes at once, because the process may die before stop is called.
func capture(path string) (func() error, error) {
	if err := os.WriteFile(path, []byte("pack"), 0o644); err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(path, []byte("packets"), 0o644) }, nil
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GITHUB_ACTIONS", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status,
			"junit":  junitCmd,
			"hung":   hung,
		},
	})
}

// status runs a program and checks its exit status, as exec cannot: status 4 ddk-validate run …
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	if got := exitStatus(ts, args[1:]); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// exitStatus runs a program and returns its exit status.
func exitStatus(ts *testscript.TestScript, args []string) string {
	if err := ts.Exec(args[0], args[1:]...); err != nil {
		return strings.TrimPrefix(err.Error(), "exit status ")
	}
	return "0"
}

// hung runs a program and checks that a case hung, by its JSON report: hung REPORT CASE ddk-validate run …
//
// On a busy machine a hang is excused and the case is run again. So the case fails in one of its attempts, or it is
// inconclusive because the machine was busy in all of them. Either way its capture must be that of an attempt.
func hung(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: hung report case program args...")
	}
	exit := exitStatus(ts, args[2:])
	rep, err := validate.ReadReport(strings.NewReader(ts.ReadFile(args[0])))
	ts.Check(err)
	i := slices.IndexFunc(rep.Results, func(r validate.Result) bool { return r.Case == args[1] })
	if i < 0 {
		ts.Fatalf("no result of %s", args[1])
	}
	r := rep.Results[i]
	if len(r.Failures) == 0 || r.Failures[0].Cause != validate.CauseHang {
		ts.Fatalf("%s did not hang: %+v", r.Case, r)
	}
	want := map[validate.Status]string{validate.Fail: "1", validate.Inconclusive: "5"}[r.Status]
	if exit != want {
		ts.Fatalf("exit status %s, want %q for %s", exit, want, r.Status)
	}
	isBusy := func(a validate.Attempt) bool { return strings.Contains(a.Conditions, "the machine was busy") }
	last := r.Attempts[len(r.Attempts)-1]
	if r.Status == validate.Inconclusive && !isBusy(last) {
		ts.Fatalf("inconclusive, and the machine was not busy: %+v", last)
	}
	names := []string{r.Case + ".pcapng"}
	for n := 1; n < len(r.Attempts); n++ {
		names = append(names, fmt.Sprintf("%s.again-%d.pcapng", r.Case, n))
	}
	if !slices.Contains(names, filepath.Base(r.Capture)) {
		ts.Fatalf("the capture is %q, want one of %q", r.Capture, names)
	}
	if got := ts.ReadFile(r.Capture); got != "pack" {
		ts.Fatalf("the capture contains %q, want what was written before the hang", got)
	}
}

// junitCmd reads a JUnit file, and compares its totals with its contents and with the arguments tests=, failures=,
// errors=, skipped=.
func junitCmd(ts *testscript.TestScript, neg bool, args []string) {
	var s junit.Testsuites
	ts.Check(xml.Unmarshal([]byte(ts.ReadFile(args[0])), &s))
	var tests, failures int
	var errs, skipped int
	for _, suite := range s.Suites {
		if suite.Tests != len(suite.Testcases) {
			ts.Fatalf("suite %s has %d tests, want %d", suite.Name, suite.Tests, len(suite.Testcases))
		}
		for _, c := range suite.Testcases {
			tests++
			if c.Name == "" || c.Classname == "" {
				ts.Fatalf("a test case of suite %s has no name or class", suite.Name)
			}
			if c.Failure != nil {
				failures++
				if c.Failure.Message == "" || c.Failure.Type == "" || c.Failure.Data == "" {
					ts.Fatalf("the failure of %s lacks message, type or text", c.Name)
				}
			}
			if c.Error != nil {
				errs++
			}
			if c.Skipped != nil {
				skipped++
			}
		}
	}
	if tests != s.Tests || failures != s.Failures || errs != s.Errors || skipped != s.Skipped {
		ts.Fatalf("totals are %d %d %d %d, want %d %d %d %d", s.Tests, s.Failures, s.Errors, s.Skipped,
			tests, failures, errs, skipped)
	}
	for _, a := range args[1:] {
		name, want, _ := strings.Cut(a, "=")
		got := map[string]int{"tests": tests, "failures": failures, "errors": errs, "skipped": skipped}[name]
		if fmt.Sprint(got) != want {
			ts.Fatalf("%s is %d, want %s", name, got, want)
		}
	}
}
