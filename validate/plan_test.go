package validate_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/validate"
	"ciddk/validate/fakehca"
)

func run(t *testing.T, p *validate.Plan) *validate.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := p.Run(ctx)
	require.NoError(t, err)
	return r
}

func TestGoodDriver(t *testing.T) {
	for _, inProcess := range []bool{false, true} {
		p := plan("")
		if inProcess {
			p.Spawn = nil
		}
		r := run(t, p)
		assert.Equal(t, map[string]validate.Status{
			"a.query": validate.Pass, "a.pd": validate.Pass, "a.cq": validate.Pass, "b.exchange": validate.Pass,
			"b.should": validate.Pass, "c.apm": validate.Skip, "c.srq": validate.Skip,
		}, statuses(r))
		assert.Equal(t, "CERTIFIED: 5 passed, 2 skipped (driver fake, profile minimal, seed 7)", r.Verdict.Line)
		assert.Equal(t, validate.ExitCertified, r.Exit())
		assert.Equal(t, "not claimed: SRQ", find(r, "c.srq").Reason)
		assert.Equal(t, "feature apm is not in profile minimal", find(r, "c.apm").Reason)
		assert.Equal(t, "0000000000001234", r.Identity.GUID)
		assert.Zero(t, r.Timing.Deaths)
	}
}

// TestIsolation checks that a fault of the driver fails the cases that encounter it and no others, and that the run
// continues to its end.
func TestIsolation(t *testing.T) {
	all := []string{"a.query", "a.pd", "a.cq", "b.exchange", "b.should"}
	queues := []string{"a.cq", "b.exchange"}
	for _, x := range []struct {
		fault  string
		failed []string
		cause  validate.Cause
		got    string
		deaths int
		stacks string
	}{
		{"crash:PD.CreateCQ", queues, validate.CausePanic, "panic: fakehca: crash after PD.CreateCQ", 2, "goroutine"},
		{"panic:PD.CreateCQ", queues, validate.CausePanic, "panic: fakehca: panic in PD.CreateCQ", 0, "fakehca"},
		{"hang:PD.CreateQP", []string{"b.exchange"}, validate.CauseHang, "hang", 1, "fakehca.(*HCA).enter"},
		{"exit:PD.RegisterMR", []string{"b.exchange"}, validate.CauseDeath, "exit status 3", 1, ""},
		{"leak:CQ.Destroy", queues, validate.CauseLeak, "+1 cq", 0, ""},
		{"crash:HCA.OpenCA", all, validate.CausePanic, "panic: fakehca: crash after HCA.OpenCA", 6, "goroutine"},
	} {
		t.Run(x.fault, func(t *testing.T) {
			p := plan(x.fault)
			p.OneAttempt = true // so that the number of deaths is fixed
			r := run(t, p)
			for _, id := range all {
				res := find(r, id)
				if !assert.NotNil(t, res, id) {
					continue
				}
				want := validate.Pass
				for _, f := range x.failed {
					if f == id {
						want = validate.Fail
					}
				}
				assert.Equal(t, want, res.Status, "%s: %+v", id, res)
			}
			f := find(r, x.failed[0]).Failures[0]
			assert.Equal(t, x.cause, f.Cause)
			assert.Equal(t, x.got, f.Got)
			assert.Contains(t, f.Stacks, x.stacks)
			assert.Equal(t, x.deaths, r.Timing.Deaths)
			assert.Equal(t, validate.ExitFailed, r.Exit())
			assert.Contains(t, r.Verdict.Line, "NOT CERTIFIED: ")
		})
	}
}

func TestHangInProcess(t *testing.T) {
	release := make(chan struct{})
	p := plan("")
	p.Spawn = nil
	p.Driver = driverWith(fakehca.Faults{HangOn: "PD.CreateQP", Release: release})
	p.Select.Cases = []string{"b.exchange", "a.pd"}
	r := run(t, p)
	close(release) // ends the goroutine that was left behind
	f := find(r, "b.exchange").Failures[0]
	assert.Equal(t, validate.CauseHang, f.Cause)
	assert.Contains(t, f.Stacks, "fakehca.(*HCA).enter")
	assert.Equal(t, validate.Pass, find(r, "a.pd").Status)
	goleak.VerifyNone(t) // waits for its end, since the next test counts goroutines
}

// TestStrayGoroutines checks that goroutines that each target leaves running are a leak, also if a single case is run.
// Goroutines that the driver starts once for the process are not.
func TestStrayGoroutines(t *testing.T) {
	for _, cases := range []string{"a.*", "a.pd"} {
		release := make(chan struct{})
		p := plan("")
		p.Spawn, p.OneAttempt = nil, true
		p.Driver = driverWith(fakehca.Faults{Stray: true, Release: release})
		p.Select.Cases = []string{cases}
		r := run(t, p)
		f := r.Results[0].Failures
		require.Len(t, f, 1)
		assert.Equal(t, validate.CauseLeak, f[0].Cause)
		assert.Equal(t, "1 more than before", f[0].Got)
		assert.Contains(t, f[0].Stacks, "fakehca.New")
		close(release)
		goleak.VerifyNone(t) // the next test counts goroutines
	}

	release := make(chan struct{})
	p := plan("")
	p.Spawn, p.OneAttempt = nil, true
	open, once := p.Driver.Open, sync.Once{}
	p.Driver.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		once.Do(func() { go func() { <-release }() })
		return open(ctx, o)
	}
	p.Select.Cases = []string{"a.pd"}
	assert.Equal(t, validate.Pass, run(t, p).Results[0].Status)
	close(release)
	goleak.VerifyNone(t)

	// The same in a worker.
	p = plan("stray")
	p.Select.Cases = []string{"a.pd"}
	assert.Equal(t, "goroutines after Target.Close", run(t, p).Results[0].Failures[0].Where)
}

func TestFindingOfACase(t *testing.T) {
	p := plan("lose")
	p.OneAttempt = true
	r := run(t, p)
	res := find(r, "b.exchange")
	require.Equal(t, validate.Fail, res.Status)
	require.Len(t, res.Failures, 1)
	f := res.Failures[0]
	assert.Equal(t, "CI-Test-02", f.Rule)
	assert.Equal(t, "1 completions", f.Expected)
	assert.Equal(t, "0 by the deadline: no completion", f.Got)
	assert.False(t, f.Setup)
	assert.Empty(t, f.Cause)
	assert.True(t, res.Blames("CI-Test-02"))
	assert.False(t, res.Blames("CI-Test-01"))
	assert.Zero(t, r.Timing.Deaths, "the case's own wait ends before the watchdog")
}

func TestUnreadableClaims(t *testing.T) {
	r := run(t, plan("noquery"))
	res := find(r, "c.srq")
	require.Equal(t, validate.Fail, res.Status)
	assert.Equal(t, "SAS-2.2-02", res.Failures[0].Rule)
	assert.True(t, res.Failures[0].Setup)
	assert.Contains(t, r.Identity.QueryError, "CA.Query")
	assert.True(t, find(r, "a.query").Failures[0].Setup, "kit.Open marks its findings")
}

func TestNoTarget(t *testing.T) {
	for _, inProcess := range []bool{false, true} {
		p := plan("unopenable")
		if inProcess {
			p.Spawn = nil
		}
		_, err := p.Run(t.Context())
		var de *validate.DriverError
		require.ErrorAs(t, err, &de)
		assert.Contains(t, err.Error(), "driver fake: open: no device 15b3:1003 found; is it bound to vfio-pci?")
		hasHint := strings.Contains(err.Error(), "set Exclusive in validate.Driver")
		assert.Equal(t, !inProcess, hasHint, "two workers may compete for the device: %v", err)
	}
}

func TestOtherProgramAsWorker(t *testing.T) {
	for fault, want := range map[string]string{"babble": "worker stream: ", "old": "version 99, this is version 2"} {
		_, err := plan(fault).Run(t.Context())
		require.Error(t, err, fault)
		assert.Contains(t, err.Error(), want)
	}
}

func TestMuteWorker(t *testing.T) {
	p := plan("mute")
	p.Setting.Scale = 0.05
	p.Select.Cases = []string{"a.query"}
	r := run(t, p)
	assert.Equal(t, validate.CauseHang, find(r, "a.query").Failures[0].Cause)
}

// TestDeathBetweenCases checks that a worker that ends between two cases fails the first. The second one runs in a new
// worker.
func TestDeathBetweenCases(t *testing.T) {
	p := plan("late")
	p.Workers = 1
	p.Select.Cases = []string{"a.pd"}
	assert.Equal(t, validate.Fail, run(t, p).Results[0].Status, "after the last case, too")
	p.Select.Cases = []string{"a.*"}
	r := run(t, p)
	assert.Equal(t, map[string]validate.Status{
		"a.query": validate.Fail, "a.pd": validate.Fail, "a.cq": validate.Fail,
	}, statuses(r))
	f := find(r, "a.query").Failures
	require.Len(t, f, 1)
	assert.Equal(t, "panic: left behind by a case", f[0].Got)
	assert.Equal(t, "CI-Test-01", f[0].Rule)
	assert.Equal(t, "the worker process, after the case", f[0].Where)
}

// TestKeep checks that Driver.Keep keeps the target while cases pass, and that a case that does not pass is followed by
// a new target.
func TestKeep(t *testing.T) {
	opens := 0
	p := plan("")
	p.Spawn = nil
	p.Driver = driverWith(fakehca.Faults{PanicOn: "PD.CreateCQ"})
	p.Driver.Keep = true
	open := p.Driver.Open
	p.Driver.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		opens++
		return open(ctx, o)
	}
	p.Select.Cases = []string{"a.query", "a.pd"}
	assert.Equal(t, validate.ExitCertified, run(t, p).Exit())
	assert.Equal(t, 1, opens)
	p.Select.Cases = []string{"a.*", "b.should"}
	p.OneAttempt, opens = true, 0
	assert.Equal(t, validate.ExitFailed, run(t, p).Exit())
	assert.Equal(t, 2, opens)
}

// TestSpoils checks that the case after one with Spoils has a new target, although the driver keeps its targets.
func TestSpoils(t *testing.T) {
	opens := 0
	p := plan("")
	p.Spawn = nil
	p.Driver = driverWith(fakehca.Faults{})
	p.Driver.Keep = true
	open := p.Driver.Open
	p.Driver.Open = func(ctx context.Context, o validate.Options) (*validate.Target, error) {
		opens++
		return open(ctx, o)
	}
	quick := validate.Case{
		Title: "t", Requirements: []string{"SAS-0-01"}, Feature: validate.FeatureCore, Run: func(*validate.T) {},
	}
	spoils, after := quick, quick
	spoils.ID, spoils.Spoils, after.ID = "s.first", true, "s.second"
	p.Catalog = validate.MustCatalog(validate.Suite{Cases: []validate.Case{spoils, after}})
	p.Select = validate.Selection{}
	assert.Equal(t, validate.ExitCertified, run(t, p).Exit())
	assert.Equal(t, 2, opens)
}

func TestNoise(t *testing.T) {
	r := run(t, plan("noise"))
	assert.Equal(t, validate.ExitCertified, r.Exit())
	assert.Empty(t, find(r, "a.pd").Log, "the output of a case that passes is not kept")
}

func TestInterrupted(t *testing.T) {
	p := plan("hang:PD.CreateQP")
	p.Setting.Scale = 1
	ctx, cancel := context.WithCancel(t.Context())
	p.Progress = func(n validate.Progress) {
		if n.Started != nil && n.Started.ID == "b.exchange" {
			cancel()
		}
	}
	r, err := p.Run(ctx)
	require.NoError(t, err)
	assert.Equal(t, "interrupted", r.Run.Stopped)
	assert.Equal(t, validate.ExitHarness, r.Exit())
	assert.False(t, r.Verdict.Certified)
}

func TestSelection(t *testing.T) {
	c := catalog()
	ids := func(s validate.Selection) (out []string) {
		cs, err := c.Select(s)
		require.NoError(t, err)
		for _, x := range cs {
			out = append(out, x.ID)
		}
		return out
	}
	assert.Equal(t, []string{"a.query", "a.pd", "a.cq"}, ids(validate.Selection{Cases: []string{"a.*"}}))
	assert.Equal(t, []string{"a.query", "a.pd"},
		ids(validate.Selection{Cases: []string{"a.*"}, Exclude: []string{"*.cq"}}))
	assert.Equal(t, []string{"a.cq", "b.exchange"}, ids(validate.Selection{Requirements: []string{"CI-*-02"}}))
	assert.Equal(t, []string{"c.apm", "c.srq"}, ids(validate.Selection{Sections: []string{"SAS"}}))
	assert.Equal(t, []string{"c.apm"}, ids(validate.Selection{Features: []validate.Feature{"apm"}}))
	var parts []string
	for i := range 3 {
		parts = append(parts, ids(validate.Selection{Shard: i + 1, Of: 3})...)
	}
	assert.ElementsMatch(t, ids(validate.Selection{}), parts, "shards are a partition")

	for _, x := range []struct {
		s    validate.Selection
		want string
	}{
		{validate.Selection{Cases: []string{"b.exchnge"}}, `no case matches "b.exchnge"; did you mean b.exchange?`},
		{
			validate.Selection{Features: []validate.Feature{"nosuch"}},
			`no case matches feature "nosuch"; the features are core, cq, qp, mr, rc, events, teardown, ` +
				"claims, uc, ud, atomic, srq, mw, mr-opt, multicast, special, apm, cq-opt, mad, sma, rd, user, al, " +
				"cm, wire",
		},
		{
			validate.Selection{Features: []validate.Feature{"mad"}},
			`no case matches feature "mad"; this program has no case of it`,
		},
		{validate.Selection{Cases: []string{"a.*", "zzz.*"}}, `no case matches "zzz.*"`},
		{
			validate.Selection{Cases: []string{"a.*"}, Features: []validate.Feature{"apm"}},
			"no case matches all conditions together",
		},
	} {
		_, err := c.Select(x.s)
		assert.True(t, validate.IsNothing(err))
		assert.EqualError(t, err, x.want)
	}
	for _, bad := range []validate.Selection{{Cases: []string{"["}}, {Shard: 3, Of: 2}, {Shard: 0, Of: 2}} {
		_, err := c.Select(bad)
		assert.Error(t, err)
		assert.False(t, validate.IsNothing(err))
	}
}

func TestOnlyOutsideTheProfile(t *testing.T) {
	p := plan("")
	p.Select.Cases = []string{"c.apm"}
	_, err := p.Run(t.Context())
	assert.True(t, validate.IsNothing(err), "%v", err)
}

func TestRepeatAndShuffle(t *testing.T) {
	order := func(seed uint64) (out []string) {
		p := plan("")
		p.Spawn, p.Shuffle = nil, true
		p.Repeat, p.Setting.Seed = 2, seed
		p.Progress = func(n validate.Progress) {
			if n.Started != nil {
				out = append(out, n.Started.ID)
			}
		}
		r := run(t, p)
		assert.Equal(t, "a.query", r.Results[0].Case, "results keep the catalog's order")
		assert.Equal(t, 2, r.Run.Repeat)
		return out
	}
	first := order(1)
	assert.Len(t, first, 12)
	assert.Equal(t, first, order(1))
	assert.NotEqual(t, first, order(2))
}

func TestFailFast(t *testing.T) {
	p := plan("panic:PD.CreateCQ")
	p.FailFast, p.Workers = true, 1
	r := run(t, p)
	assert.Equal(t, "first failure: a.cq", r.Run.Stopped)
	assert.Equal(t, validate.ExitFailed, r.Exit())
	assert.Nil(t, find(r, "b.should"))
}

func TestShouldIsAdvisory(t *testing.T) {
	p := plan("panic:CA.AllocatePD")
	p.Select.Cases = []string{"a.query", "b.should"}
	r := run(t, p)
	assert.Equal(t, validate.Fail, find(r, "b.should").Status)
	assert.Equal(t, "SELECTION PASSED: 2 of 7 cases selected, 1 passed, 0 skipped, 1 recommendations not met "+
		"(driver fake, profile minimal, seed 7)", r.Verdict.Line)
	assert.True(t, r.Verdict.Selection)
	assert.NotContains(t, r.Verdict.Line, "CERTIFIED")
	p.Strict = true
	r = run(t, p)
	assert.Equal(t, validate.ExitFailed, r.Exit())
	assert.Equal(t, "SELECTION FAILED: 1 failed, 2 of 7 cases selected, 1 passed, 0 skipped "+
		"(driver fake, profile minimal, seed 7)", r.Verdict.Line)
	assert.Contains(t, find(r, "b.should").Log[0], "evidence")
}

func TestReportRoundTrip(t *testing.T) {
	p := plan("crash:PD.CreateCQ")
	bad := run(t, p)
	good := run(t, plan(""))
	var b bytes.Buffer
	require.NoError(t, bad.WriteJSON(&b))
	old, err := validate.ReadReport(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, []string{"a.cq", "b.exchange"}, old.Failed())
	flips := good.Compare(old, true)
	require.Len(t, flips, 2)
	assert.Equal(t, "a.cq: fail -> pass", flips[0].String())
	assert.False(t, flips[0].Worse())
	assert.True(t, bad.Compare(good, true)[0].Worse())

	// Two equal runs differ only in their timing.
	again := run(t, plan(""))
	good.Timing, again.Timing = validate.Timing{}, validate.Timing{}
	var x, y bytes.Buffer
	require.NoError(t, good.WriteJSON(&x))
	require.NoError(t, again.WriteJSON(&y))
	assert.Equal(t, x.String(), y.String())

	_, err = validate.ReadReport(bytes.NewReader([]byte(`{"schema":"other"}`)))
	assert.Error(t, err)
}

func TestDriverErrorIsNotNothing(t *testing.T) {
	assert.False(t, validate.IsNothing(&validate.DriverError{Text: "x"}))
	assert.False(t, validate.IsNothing(errors.New("x")))
}
