package validate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/fakehca"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// asWorker is the environment variable of a worker: "fault/worker".
const asWorker = "VALIDATE_TEST_WORKER"

func TestMain(m *testing.M) {
	if v := os.Getenv(asWorker); v != "" {
		fault, set, _ := strings.Cut(v, "/")
		s := setting()
		if _, err := fmt.Sscan(set, &s.Worker); err != nil {
			panic(err)
		}
		work(fault, s)
		return
	}
	goleak.VerifyTestMain(m)
}

// work is the main function of a worker, or of a process that behaves wrongly as a worker.
func work(fault string, s validate.Setting) {
	through := func(w io.Writer) io.Writer { return w }
	switch fault {
	case "mute": // writes nothing and does not exit
		signal.Notify(make(chan os.Signal, 1), os.Interrupt) // without it, the runtime would report a deadlock
		select {}
	case "babble", "old":
		nonce, out, err := validate.OpenWorkerChannel()
		if err != nil {
			panic(err)
		}
		if fault == "babble" {
			fmt.Fprintln(out, nonce+" {not json")
			return
		}
		_ = validate.WriteEvent(out, nonce, validate.Event{Kind: validate.EventHello, Version: 99})
		return
	case "late":
		through = func(w io.Writer) io.Writer { return lateCrash{w} }
	}
	if err := validate.ServeWorkerThrough(context.Background(), catalog(), driver(fault), s, through); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
}

// lateCrash makes the worker panic after it has sent the result of its first case, as a goroutine left behind by the
// case would.
type lateCrash struct{ w io.Writer }

func (l lateCrash) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	if bytes.Contains(p, []byte(`"kind":"result"`)) {
		panic("left behind by a case")
	}
	return n, err
}

func setting() validate.Setting {
	return validate.Setting{Options: validate.Options{Seed: 7}, Profile: "minimal", Scale: 0.2}
}

// spawn starts this test binary as a worker whose driver has the fault.
func spawn(fault string) func(context.Context, validate.Setting) *exec.Cmd {
	return func(ctx context.Context, s validate.Setting) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=none")
		cmd.Env = append(validate.WorkerEnv(), fmt.Sprintf("%s=%s/%d", asWorker, fault, s.Worker))
		return cmd
	}
}

// driver returns a driver for fake HCAs with the fault.
func driver(fault string) validate.Driver {
	f := fakehca.Faults{Exit: os.Exit}
	kind, verb, _ := strings.Cut(fault, ":")
	switch kind {
	case "hang":
		f.HangOn = verb
	case "panic":
		f.PanicOn = verb
	case "crash":
		f.CrashOn = verb
	case "exit":
		f.ExitOn = verb
	case "leak":
		f.LeakOn = verb
	case "noise":
		f.Noise = true
	case "noquery":
		f.NoQuery = true
	case "stray":
		f.Stray = true
	case "lose":
		f.LoseEvery = 1
	}
	d := driverWith(f)
	if kind == "hostile" {
		d.Open = hostileOpen(d.Open, verb)
	}
	if kind == "card" {
		d.Exclusive, d.Open = true, openCard(d.Open)
	}
	if kind == "unopenable" {
		d.Open = func(context.Context, validate.Options) (*validate.Target, error) {
			return nil, errors.New("no device 15b3:1003 found; is it bound to vfio-pci?")
		}
	}
	return d
}

// cardVar is the environment variable with the name of a file that stands for a card. The process that has created it
// owns the card.
const cardVar = "VALIDATE_TEST_CARD"

// openCard returns an Open for a card that one process can have open at a time.
func openCard(open openFunc) openFunc {
	return func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		path := os.Getenv(cardVar)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("card is busy: %w", err)
		}
		t, err := open(ctx, o)
		if err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(path))
		}
		t.Close = func(context.Context) error { return errors.Join(f.Close(), os.Remove(path)) }
		return t, nil
	}
}

func driverWith(f fakehca.Faults) validate.Driver {
	return validate.Driver{Name: "fake", Open: func(context.Context, validate.Options) (*validate.Target, error) {
		h := fakehca.New(0x1234, ci.LinkEthernet, f)
		return &validate.Target{HCAs: []ci.HCA{h}, Live: h.Live, Version: "1.0"}, nil
	}}
}

// catalog returns a small catalog for tests.
func catalog() *validate.Catalog {
	rq := func(n int, l req.Level) req.Requirement {
		return req.Requirement{
			ID: fmt.Sprintf("CI-Test-%02d", n), Text: "rule", Level: l, Section: "IBTA 11.2.1", Source: "test",
			Scope: req.Driver,
		}
	}
	one := func(id, requirement string, f validate.Feature, run func(*validate.T)) validate.Case {
		return validate.Case{ID: id, Title: "title of " + id, Requirements: []string{requirement}, Feature: f, Run: run}
	}
	pd := func(t *validate.T) { kit.Open(t).PD() }
	notRun := func(t *validate.T) { t.Failf("x", "not to be run", "run") }
	s := validate.Suite{
		Requirements: []req.Requirement{rq(1, req.Must), rq(2, req.Must), rq(3, req.Should)},
		Cases: []validate.Case{
			one("a.query", "CI-Test-01", validate.FeatureCore, func(t *validate.T) { kit.Open(t) }),
			one("a.pd", "CI-Test-01", validate.FeatureCore, pd),
			one("a.cq", "CI-Test-02", validate.FeatureCQ, func(t *validate.T) {
				ca := kit.Open(t)
				t.Step("a queue of %d", 8)
				ca.CQ(ca.PD(), 8)
			}),
			one("b.exchange", "CI-Test-02", validate.FeatureRC, func(t *validate.T) {
				p := kit.RC(t)
				p.A.Exchange(p.B, 100)
				p.B.Exchange(p.A, 1)
			}),
			one("b.should", "CI-Test-03", validate.FeatureRC, func(t *validate.T) {
				t.Logf("evidence %d", t.Rand().Uint32())
				pd(t)
			}),
			one("c.apm", "SAS-0-01", validate.FeatureAPM, notRun),
		},
	}
	needs := one("c.srq", "SAS-0-01", validate.FeatureCore, notRun)
	needs.Needs.Caps = ci.CapSRQ
	s.Cases = append(s.Cases, needs)
	return validate.MustCatalog(s)
}

func plan(fault string) *validate.Plan {
	return &validate.Plan{
		Catalog: catalog(), Driver: driver(fault), Setting: setting(), Spawn: spawn(fault), Command: []string{"test"},
	}
}

// statuses returns the status of each case.
func statuses(r *validate.Report) map[string]validate.Status {
	out := map[string]validate.Status{}
	for _, x := range r.Results {
		out[x.Case] = x.Status
	}
	return out
}

func find(r *validate.Report, id string) *validate.Result {
	for i := range r.Results {
		if r.Results[i].Case == id {
			return &r.Results[i]
		}
	}
	return nil
}
