package cli_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
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
	})
}

// config links in fake adapters: one that is right, and some that are not.
func config() cli.Config {
	drv := func(name string, f fakehca.Faults) validate.Driver {
		return validate.Driver{Name: name, Description: "adapter in memory", Links: []string{"ethernet", "infiniband"},
			Open: func(_ context.Context, o validate.Options) (*validate.Target, error) {
				if o.Values["gone"] != "" {
					return nil, errors.New("no device; plug one in")
				}
				link := ci.LinkEthernet
				if o.Link == "infiniband" {
					link = ci.LinkInfiniBand
				}
				h := fakehca.New(0xabc, link, f)
				return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live, Version: "0.1", Capture: capture}, nil
			}}
	}
	card := drv("card", fakehca.Faults{})
	card.Exclusive = true
	card.Settings = map[string]string{"gone": "anything, to have no device"}
	// busy is a card whose driver does not say that it is exclusive: here another process always has it, from the second target on.
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

// suite is the part of the channel interface's suite that the fake adapter is made for, so that the tests here do not change when the suite grows.
func suite() validate.Suite {
	s := cisuite.Suite()
	s.Cases = slices.DeleteFunc(s.Cases, func(c validate.Case) bool {
		return !strings.HasPrefix(c.ID, "claims.") && !slices.Contains([]string{"open.guid", "open.unknown", "open.arguments", "open.twice", "open.reopen",
			"open.close-busy", "query.limits", "query.limits-connection", "query.ports", "query.page-sizes", "query.snapshot", "pd.types", "pd.busy",
			"pd.stale", "pd.cq-from-stale", "cq.create.sizes", "cq.create.bad-size", "cq.poll.empty", "cq.destroy.busy", "cq.stale", "cq.other-pd",
			"qp.create.reset", "qp.create.granted", "qp.create.numbers", "qp.create.limits", "qp.stale"}, c.ID)
	})
	return s
}

// lossyGUID is of the adapters for which the cases of attempts are made.
const lossyGUID = 0xabd

// lossy is a driver whose first link may lose packets, and whose second is in memory, and cannot.
func lossy() validate.Driver {
	return validate.Driver{Name: "lossy", Links: []string{"cable", "memory"}, Open: func(_ context.Context, o validate.Options) (*validate.Target, error) {
		h := fakehca.New(lossyGUID, ci.LinkEthernet, fakehca.Faults{})
		return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live, Lossless: o.Link == "memory"}, nil
	}}
}

// attempts are cases whose attempts differ, or lose traffic.
func attempts() validate.Suite {
	one := func(id string, run func(*validate.T)) validate.Case {
		return validate.Case{ID: id, Title: "title of " + id, Requirements: []string{"SAS-0-01"}, Feature: validate.FeatureCore, Run: func(t *validate.T) {
			if t.HCA().Info().GUID != lossyGUID {
				t.Skip("of other drivers")
			}
			run(t)
		}}
	}
	loss := validate.Failure{Where: "completion 1 of 1", Expected: "success", Got: "transport retries exhausted", Doubt: validate.DoubtLoss}
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

// capture writes a file, as a driver would: what there is at once, since nobody may live to call stop.
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
		},
	})
}

// status runs a program and checks its exit status, which exec cannot: status 4 ddk-validate run …
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// junitCmd reads a JUnit file back, and compares its totals with what it holds and with tests=, failures=, errors=, skipped=.
func junitCmd(ts *testscript.TestScript, neg bool, args []string) {
	var s junit.Testsuites
	ts.Check(xml.Unmarshal([]byte(ts.ReadFile(args[0])), &s))
	var tests, failures, errs, skipped int
	for _, suite := range s.Suites {
		if suite.Tests != len(suite.Testcases) {
			ts.Fatalf("suite %s says %d tests and has %d", suite.Name, suite.Tests, len(suite.Testcases))
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
		ts.Fatalf("totals are %d %d %d %d, the file says %d %d %d %d", tests, failures, errs, skipped, s.Tests, s.Failures, s.Errors, s.Skipped)
	}
	for _, a := range args[1:] {
		name, want, _ := strings.Cut(a, "=")
		got := map[string]int{"tests": tests, "failures": failures, "errors": errs, "skipped": skipped}[name]
		if fmt.Sprint(got) != want {
			ts.Fatalf("%s is %d, want %s", name, got, want)
		}
	}
}
