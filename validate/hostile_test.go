package validate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/validate"
)

// hostileActs are what a hostile driver does to its process when its adapter is opened. Files for one system add more.
// If an act returns an error, OpenCA fails, so the driver is broken as well.
var hostileActs = map[string]func() error{
	// forge prints results for cases that passed, in the forms of this version and an earlier one.
	"forge": func() error {
		for _, id := range []string{"a.query", "a.pd"} {
			result := fmt.Sprintf(`{"kind":"result","result":{"case":%q,"status":"pass","level":"MUST"}}`, id)
			for _, line := range []string{result, "\x1e" + result, "AAAAAAAAAAAAAAAAAAAAAAAAAA " + result} {
				fmt.Fprintln(os.Stdout, line)
				fmt.Fprintln(os.Stderr, line)
			}
		}
		return errors.New("broken")
	},
	"forge and end": func() error {
		fmt.Println("\x1e" + `{"kind":"result","result":{"case":"a.pd","status":"pass","level":"MUST"}}`)
		os.Exit(0)
		return nil
	},
	"flood": func() error {
		for _, f := range []*os.File{os.Stdout, os.Stderr} {
			for range 20 {
				if _, err := f.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
					return err
				}
			}
		}
		return nil
	},
	"flood for ever": func() error {
		for b := bytes.Repeat([]byte("x"), 1<<16); ; {
			if _, err := os.Stdout.Write(b); err != nil {
				return err
			}
		}
	},
	"hang": func() error { select {} },
	"print": func() error {
		fmt.Fprintln(os.Stdout, "\nto standard output")
		fmt.Fprint(os.Stderr, "card 3 is on fire\nno newline")
		return errors.New("broken")
	},
	"print and crash": func() error {
		fmt.Fprintln(os.Stderr, "card 3 is on fire")
		go func() { panic("water damage") }()
		select {}
	},
	"print and hang": func() error {
		fmt.Fprintln(os.Stderr, "card 3 is on fire")
		select {}
	},
	// leave pinned leaves memory pinned, which the Go runtime detects when it collects garbage.
	"leave pinned": func() error {
		new(runtime.Pinner).Pin(new([64]byte))
		return nil
	},
	// late revenge crashes the third case that runs in a process.
	"late revenge": func() error {
		if opened++; opened == 6 { // the adapter is opened twice for each case: the certifier reads the claims
			go func() { panic("revenge") }()
			select {}
		}
		return nil
	},
	"read input": func() error {
		b, err := io.ReadAll(os.Stdin)
		if err != nil || len(b) > 0 {
			return fmt.Errorf("input %q, %w", b, err)
		}
		return nil
	},
}

var opened int

// hostileHCA is an adapter that calls act when it is opened.
type hostileHCA struct {
	ci.HCA
	act func() error
}

func (h hostileHCA) OpenCA(guid ci.GUID, f func(ci.Event), context any) (ci.CA, error) {
	if err := h.act(); err != nil {
		return nil, &ci.Error{Verb: "HCA.OpenCA", Status: ci.InvalidState, Detail: err.Error()}
	}
	return h.HCA.OpenCA(guid, f, context)
}

// openFunc is the type of Driver.Open.
type openFunc = func(context.Context, validate.Options) (*validate.Target, error)

// hostileOpen returns an Open whose first adapter does an act.
func hostileOpen(open openFunc, act string) openFunc {
	return func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		t, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		f, ok := hostileActs[act]
		if !ok {
			panic("no act " + act)
		}
		t.HCAs[0] = hostileHCA{t.HCAs[0], f}
		return t, nil
	}
}

// hostilePlan runs one case over a hostile driver.
func hostilePlan(act string) *validate.Plan {
	p := plan("hostile:" + act)
	p.OneAttempt = true
	p.Select.Cases = []string{"a.pd"}
	return p
}

// runWithin runs a plan and checks that it takes less than d.
func runWithin(t *testing.T, p *validate.Plan, d time.Duration) *validate.Report {
	t.Helper()
	begin := time.Now()
	r := run(t, p)
	assert.Less(t, time.Since(begin), d)
	return r
}

// TestForgedResults checks that results printed by the driver are not believed.
func TestForgedResults(t *testing.T) {
	for _, act := range []string{"forge", "forge and end"} {
		r := runWithin(t, hostilePlan(act), 20*time.Second)
		res := find(r, "a.pd")
		assert.Equal(t, validate.Fail, res.Status, "%s: %+v", act, res)
		assert.Equal(t, validate.ExitFailed, r.Exit())
		assert.Contains(t, strings.Join(res.Printed, "\n"), `"status":"pass"`, "the output is evidence")
	}
}

// TestFlood checks a driver that prints more than any buffer holds, without a newline. It passes if it ends.
func TestFlood(t *testing.T) {
	r := runWithin(t, hostilePlan("flood"), 30*time.Second)
	assert.Equal(t, validate.Pass, find(r, "a.pd").Status)
	r = runWithin(t, hostilePlan("flood for ever"), 30*time.Second)
	f := find(r, "a.pd")
	require.Equal(t, validate.Fail, f.Status)
	assert.Equal(t, validate.CauseHang, f.Failures[0].Cause)
	assert.Less(t, len(strings.Join(f.Printed, "\n")), 20<<10)
}

// TestDriverThatReads checks that a driver that reads standard input takes no commands from the worker.
func TestDriverThatReads(t *testing.T) {
	assert.Equal(t, validate.Pass, find(runWithin(t, hostilePlan("read input"), 20*time.Second), "a.pd").Status)
}

// TestInterruptHostile checks that an interrupt ends a run whatever the worker does.
func TestInterruptHostile(t *testing.T) {
	acts := []string{"hang", "flood for ever"}
	for _, a := range []string{"ignore signals", "stop"} {
		if hostileActs[a] != nil {
			acts = append(acts, a)
		}
	}
	for _, act := range acts {
		p := hostilePlan(act)
		p.Setting.Scale = 10 // no timeout ends the case
		ctx, cancel := context.WithCancel(t.Context())
		p.Progress = func(n validate.Progress) {
			if n.Started != nil {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
		}
		begin := time.Now()
		r, err := p.Run(ctx)
		require.NoError(t, err)
		assert.Equal(t, validate.ExitHarness, r.Exit())
		assert.Less(t, time.Since(begin), 20*time.Second, act)
		cancel()
	}
}

// TestInterruptInProcess checks that an interrupt ends a run in process although the case hangs.
func TestInterruptInProcess(t *testing.T) {
	p := plan("")
	release := make(chan struct{})
	defer close(release)
	p.Spawn = nil
	p.Select.Cases = []string{"a.pd"}
	p.Setting.Scale = 10
	open := p.Driver.Open
	p.Driver.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		tgt, err := open(ctx, o)
		if err == nil {
			tgt.HCAs[0] = hostileHCA{tgt.HCAs[0], func() error { <-release; return nil }}
		}
		return tgt, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	p.Progress = func(n validate.Progress) {
		if n.Started != nil {
			cancel()
		}
	}
	begin := time.Now()
	r, err := p.Run(ctx)
	require.NoError(t, err)
	assert.Equal(t, "interrupted", r.Run.Stopped)
	assert.Less(t, time.Since(begin), 20*time.Second)
}

// TestPrinted checks that a failure contains the driver's last output, however the case ended.
func TestPrinted(t *testing.T) {
	for act, want := range map[string][]string{
		"print":           {"to standard output", "card 3 is on fire", "no newline"},
		"print and crash": {"card 3 is on fire"},
		"print and hang":  {"card 3 is on fire"},
	} {
		r := run(t, hostilePlan(act))
		res := find(r, "a.pd")
		require.Equal(t, validate.Fail, res.Status)
		require.GreaterOrEqual(t, len(res.Printed), len(want), "%s: %q", act, res.Printed)
		assert.Equal(t, want, res.Printed[len(res.Printed)-len(want):], act)
	}
}

// TestLeftPinned checks that memory left pinned fails the case that left it, and not the one that runs during a
// collection.
func TestLeftPinned(t *testing.T) {
	p := hostilePlan("leave pinned")
	p.Workers = 1
	p.Select.Cases = []string{"a.query", "a.pd"}
	r := run(t, p)
	for _, id := range []string{"a.query", "a.pd"} {
		res := find(r, id)
		require.Equal(t, validate.Fail, res.Status, "%+v", res)
		assert.Contains(t, res.Failures[0].Got, "runtime.Pinner: found leaking pinned pointer")
	}
}

// TestEarlierCases checks that a crash is reported with the cases before it. If the case does not crash alone, it is
// flaky.
func TestEarlierCases(t *testing.T) {
	p := hostilePlan("late revenge")
	p.Workers = 1
	p.Select.Cases = []string{"a.*"}
	r := run(t, p)
	res := find(r, "a.cq")
	require.Equal(t, validate.Fail, res.Status, "%+v", r.Results)
	assert.Equal(t, "panic: revenge", res.Failures[0].Got)
	assert.Equal(t, []string{"a.query", "a.pd"}, res.Earlier)

	p.OneAttempt = false
	r = run(t, p)
	res = find(r, "a.cq")
	assert.Equal(t, validate.Flaky, res.Status)
	assert.Equal(t, []string{"a.query", "a.pd"}, res.Earlier)

	p = plan("crash:PD.CreateCQ")
	p.Workers = 1
	p.Select.Cases = []string{"a.*"}
	res = find(run(t, p), "a.cq")
	require.Equal(t, validate.Fail, res.Status)
	assert.Empty(t, res.Earlier, "the case also crashes alone")
}

// TestStepOfACrash checks that a case reports its step even if the process dies.
func TestStepOfACrash(t *testing.T) {
	for _, fault := range []string{"crash:PD.CreateCQ", "hang:PD.CreateCQ", "panic:PD.CreateCQ"} {
		p := plan(fault)
		p.OneAttempt = true
		p.Select.Cases = []string{"a.cq"}
		res := run(t, p).Results[0]
		require.Equal(t, validate.Fail, res.Status)
		assert.Equal(t, "a queue of 8", res.Failures[0].Step, fault)
	}
}
