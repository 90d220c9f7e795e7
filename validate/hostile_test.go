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

// hostile acts are what a driver does, when its adapter is opened, to the process that judges it. Acts of one system are added by files
// of that system. An error makes OpenCA fail: then the driver is broken as well.
var hostileActs = map[string]func() error{
	// forge prints what a worker of today, and one of an earlier version, would report for a case that passed.
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
	// leave pinned leaves memory pinned, which the Go runtime finds when it collects garbage.
	"leave pinned": func() error {
		new(runtime.Pinner).Pin(new([64]byte))
		return nil
	},
	// The third adapter that is opened in a process takes revenge for what was done to the first.
	"late revenge": func() error {
		if opened++; opened == 6 { // two for each case: the certifier reads the claims
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

// hostileHCA is an adapter that acts when it is opened.
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

func hostileOpen(open func(context.Context, validate.Options) (*validate.Target, error), act string) func(context.Context, validate.Options) (*validate.Target, error) {
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

// hostilePlan runs one case over a driver that acts.
func hostilePlan(act string) *validate.Plan {
	p := plan("hostile:" + act)
	p.OneAttempt = true
	p.Select.Cases = []string{"a.pd"}
	return p
}

// runWithin runs a plan that may take a time.
func runWithin(t *testing.T, p *validate.Plan, d time.Duration) *validate.Report {
	t.Helper()
	begin := time.Now()
	r := run(t, p)
	assert.Less(t, time.Since(begin), d)
	return r
}

// What a driver prints is no result, whatever it looks like.
func TestForgedResults(t *testing.T) {
	for _, act := range []string{"forge", "forge and end"} {
		r := runWithin(t, hostilePlan(act), 20*time.Second)
		res := find(r, "a.pd")
		assert.Equal(t, validate.Fail, res.Status, "%s: %+v", act, res)
		assert.Equal(t, validate.ExitFailed, r.Exit())
		assert.Contains(t, strings.Join(res.Printed, "\n"), `"status":"pass"`, "it is evidence")
	}
}

// A driver that prints more than any buffer holds, without a newline, is judged all the same.
func TestFlood(t *testing.T) {
	r := runWithin(t, hostilePlan("flood"), 30*time.Second)
	assert.Equal(t, validate.Pass, find(r, "a.pd").Status)
	r = runWithin(t, hostilePlan("flood for ever"), 30*time.Second)
	f := find(r, "a.pd")
	require.Equal(t, validate.Fail, f.Status)
	assert.Equal(t, validate.CauseHang, f.Failures[0].Cause)
	assert.Less(t, len(strings.Join(f.Printed, "\n")), 20<<10)
}

// Commands do not come on standard input, so that a driver that reads it takes none away.
func TestDriverThatReads(t *testing.T) {
	assert.Equal(t, validate.Pass, find(runWithin(t, hostilePlan("read input"), 20*time.Second), "a.pd").Status)
}

// An interrupt ends a run whatever its worker does.
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

// A hang in this process does not keep an interrupt from ending the run.
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

// A failure shows what the driver wrote last, whatever ended the case.
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

// Memory left pinned is found in the case that left it, not in one that happens to run when garbage is collected.
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

// The block of a crash names the cases before it, and a crash that does not come again alone is not the case's.
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
	assert.Empty(t, res.Earlier, "it crashes alone, too")
}

// A case that the process does not survive says in which step it was.
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
