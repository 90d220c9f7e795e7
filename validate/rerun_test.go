package validate

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/validate/req"
)

// script is a runner with fixed results.
type script struct {
	results []Result
	jobs    []job
	fresher int
}

func (s *script) run(_ context.Context, j job) Result {
	s.jobs = append(s.jobs, j)
	r := s.results[min(len(s.jobs), len(s.results))-1]
	r.Case = j.c.ID
	return r
}
func (s *script) fresh(context.Context) { s.fresher++ }
func (s *script) close(context.Context) {}

var (
	passes   = Result{Status: Pass, Elapsed: Elapsed(time.Second)}
	finding  = Failure{Rule: "R", Expected: "x", Got: "y"}
	fails    = Result{Status: Fail, Failures: []Failure{finding}, Elapsed: Elapsed(time.Second)}
	hangs    = Result{Status: Fail, Failures: []Failure{{Rule: "R", Cause: CauseHang}}}
	unclear  = Result{Status: Inconclusive, Reason: "the relay did not see the packet"}
	open     = Conditions{}
	lossless = Conditions{Lossless: true}
	probed   = Conditions{Sent: 1000}
	lossy    = Conditions{Sent: 1000, Lost: 3}
	busy     = Conditions{Lossless: true, Stall: Elapsed(maxStall), Stalled: 0.1}
	starved  = Conditions{Lossless: true, Stall: Elapsed(time.Second), Stalled: 0.9}
)

// lost is a result whose finding is in doubt.
func lost(d Doubt, c Conditions) Result {
	f := Failure{Rule: "R", Doubt: d, Expected: "success", Got: "transport retries exhausted"}
	return Result{Status: Fail, Failures: []Failure{f}, conditions: c, Elapsed: Elapsed(time.Second)}
}

func with(r Result, c Conditions) Result { r.conditions = c; return r }

func TestSettle(t *testing.T) {
	consequence := lost(DoubtLoss, open)
	consequence.Failures = append(consequence.Failures, Failure{Rule: "R", Cause: CauseLeak, Setup: true})
	both := lost(DoubtLoss, open)
	both.Failures = append(both.Failures, Failure{Rule: "R", Expected: "data", Got: "other data"})
	loss := func(c Conditions) Result { return lost(DoubtLoss, c) }
	late := func(c Conditions) Result { return lost(DoubtTime, c) }
	for name, x := range map[string]struct {
		results []Result
		want    Status
		runs    int
	}{
		"passes":                                 {[]Result{passes}, Pass, 1},
		"skipped":                                {[]Result{{Status: Skip}}, Skip, 1},
		"error":                                  {[]Result{{Status: Error}}, Error, 1},
		"fails twice":                            {[]Result{fails, fails}, Fail, 2},
		"fails, then passes":                     {[]Result{fails, passes}, Flaky, 2},
		"fails, then loses":                      {[]Result{fails, loss(open)}, Fail, 2},
		"loses, then passes":                     {[]Result{loss(open), passes}, Pass, 2},
		"loses twice, then passes":               {[]Result{loss(open), loss(lossy), passes}, Pass, 3},
		"loses always, nothing known":            {[]Result{loss(open)}, Inconclusive, 4},
		"loses always, a lossy link":             {[]Result{loss(lossy)}, Inconclusive, 4},
		"loses always, a lossless link":          {[]Result{loss(lossless)}, Fail, 2},
		"loses always, a probe that arrives":     {[]Result{loss(probed)}, Fail, 2},
		"loses once, a lossless link":            {[]Result{loss(lossless), passes}, Flaky, 2},
		"loses always, lossless but busy":        {[]Result{loss(busy)}, Inconclusive, 4},
		"loses when busy, and when not":          {[]Result{loss(busy), loss(busy), loss(lossless)}, Fail, 3},
		"loses when busy, then passes":           {[]Result{loss(busy), passes}, Pass, 2},
		"loses, then fails":                      {[]Result{loss(open), fails}, Fail, 2},
		"late always":                            {[]Result{late(open)}, Fail, 2},
		"late always, a little busy":             {[]Result{late(busy)}, Fail, 2},
		"late always, a lossy link":              {[]Result{late(lossy)}, Inconclusive, 4},
		"late always, a probe that arrives":      {[]Result{late(probed)}, Fail, 2},
		"hangs, a lossy link":                    {[]Result{with(hangs, lossy)}, Fail, 2},
		"late always, starved":                   {[]Result{late(starved)}, Inconclusive, 4},
		"late when starved, then passes":         {[]Result{late(starved), passes}, Pass, 2},
		"hangs":                                  {[]Result{hangs}, Fail, 2},
		"hangs always, starved":                  {[]Result{with(hangs, starved)}, Inconclusive, 4},
		"hangs when starved, then passes":        {[]Result{with(hangs, starved), passes}, Pass, 2},
		"hangs when starved, and when not":       {[]Result{with(hangs, starved), hangs}, Fail, 2},
		"inconclusive by itself":                 {[]Result{unclear}, Inconclusive, 4},
		"inconclusive by itself, lossless":       {[]Result{with(unclear, lossless)}, Inconclusive, 4},
		"inconclusive by itself, then passes":    {[]Result{unclear, passes}, Pass, 2},
		"inconclusive by itself, then fails":     {[]Result{unclear, fails}, Fail, 2},
		"loses, with a consequence":              {[]Result{consequence}, Inconclusive, 4},
		"loses, beside a finding without excuse": {[]Result{both}, Fail, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := &session{p: &Plan{}}, &script{results: x.results}
			got := s.settle(t.Context(), r, job{c: &Case{ID: "a.b"}, attempt: 1})
			assert.Equal(t, x.want, got.Status, "%+v", got)
			require.Len(t, r.jobs, x.runs)
			assert.Equal(t, x.runs-1, r.fresher, "each further attempt has a worker of its own")
			for i, j := range r.jobs {
				assert.Equal(t, i, j.rerun)
			}
			if x.runs > 1 {
				require.Len(t, got.Attempts, x.runs)
				assert.Equal(t, x.results[0].Status, got.Attempts[0].Status)
			}
			if x.runs > 1 && x.want == Pass {
				require.NotEmpty(t, got.Notes)
				assert.Contains(t, got.Notes[0].Text, "attempts lost traffic")
			}
			if x.want == Inconclusive {
				assert.Contains(t, got.Reason, "4 of 4 attempts lost traffic")
				assert.NotEmpty(t, got.Attempts[3].Conditions, "the report has what excuses the attempt")
			}
			assert.Equal(t, x.want == Flaky, got.Flaky != "")

			s, r = &session{p: &Plan{OneAttempt: true}}, &script{results: x.results}
			got = s.settle(t.Context(), r, job{c: &Case{ID: "a.b"}})
			assert.Equal(t, x.results[0].Status, got.Status)
			assert.Len(t, r.jobs, 1)
		})
	}
}

// TestFinal checks that a failure of a final case is not run again, unless the link or the machine explains it.
func TestFinal(t *testing.T) {
	for _, x := range []struct {
		first Result
		want  Status
		runs  int
	}{{fails, Fail, 1}, {hangs, Fail, 1}, {lost(DoubtTime, open), Fail, 1}, {with(hangs, starved), Pass, 2},
		{lost(DoubtTime, starved), Pass, 2}} {
		s, r := &session{p: &Plan{}}, &script{results: []Result{x.first, passes}}
		got := s.settle(t.Context(), r, job{c: &Case{ID: "a.b", Final: true}})
		assert.Equal(t, x.want, got.Status)
		assert.Len(t, r.jobs, x.runs)
	}
}

// TestStretch checks that a case that is run again because it lost traffic has longer timeouts, and that Elapsed
// includes all attempts.
func TestStretch(t *testing.T) {
	s, r := &session{p: &Plan{}}, &script{results: []Result{lost(DoubtLoss, open)}}
	got := s.settle(t.Context(), r, job{c: &Case{ID: "a.b"}})
	var stretched []float64
	for _, j := range r.jobs {
		stretched = append(stretched, j.stretch)
	}
	assert.Equal(t, []float64{0, 2, 4, 4}, stretched)
	assert.Equal(t, Elapsed(4*time.Second), got.Elapsed)
	assert.Equal(t, 2*DefaultTimeout, r.jobs[1].timeout(Setting{}))
	assert.Equal(t, DefaultTimeout, r.jobs[0].timeout(Setting{}))
}

// TestHopeless checks that cases are no longer run again after maxHopeless cases were inconclusive.
func TestHopeless(t *testing.T) {
	s, r := &session{p: &Plan{}}, &script{results: []Result{lost(DoubtLoss, open)}}
	for range maxHopeless {
		s.settle(t.Context(), r, job{c: &Case{ID: "a.b"}})
	}
	r.jobs = nil
	got := s.settle(t.Context(), r, job{c: &Case{ID: "a.b"}})
	assert.Equal(t, Inconclusive, got.Status)
	assert.Contains(t, got.Reason, "not run again, since 5 cases lost their traffic in every attempt")
	assert.Len(t, r.jobs, 1)
}

// TestSettleInterrupted checks that an interrupt ends the attempts.
func TestSettleInterrupted(t *testing.T) {
	for _, first := range []Result{fails, lost(DoubtLoss, open)} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s, r := &session{p: &Plan{}}, &script{results: []Result{first}}
		assert.Equal(t, Fail, s.settle(ctx, r, job{c: &Case{ID: "a.b"}}).Status)
		assert.LessOrEqual(t, len(r.jobs), 2)
	}
}

// TestVerdicts checks the outcome, the verdict line and the exit status for each reason that denies a certificate.
func TestVerdicts(t *testing.T) {
	res := func(l req.Level, ss ...Status) (out []Result) {
		for _, s := range ss {
			out = append(out, Result{Status: s, Level: l})
		}
		return out
	}
	must, should := req.Must, req.Should
	for name, x := range map[string]struct {
		results   []Result
		untested  []Untested
		selection bool
		stopped   string
		outcome   Outcome
		line      string
		exit      int
	}{
		"passed": {
			results: res(must, Pass), outcome: OutcomePassed, line: "CERTIFIED: 1 passed, 0 skipped", exit: 0,
		},
		"failed": {
			results: res(must, Pass, Fail, Flaky, Inconclusive), outcome: OutcomeFailed, exit: 1,
			line: "NOT CERTIFIED: 1 failed, 1 flaky, 1 inconclusive, 1 passed, 0 skipped",
		},
		"flaky": {
			results: res(must, Pass, Flaky, Inconclusive), outcome: OutcomeFlaky, exit: 6,
			line: "FLAKY: 1 flaky, 1 inconclusive, 1 passed, 0 skipped",
		},
		"inconclusive": {
			results: res(must, Pass, Inconclusive), outcome: OutcomeInconclusive, exit: 5,
			line: "INCONCLUSIVE: 1 inconclusive, 1 passed, 0 skipped",
		},
		"only inconclusive": {
			results: res(must, Inconclusive), outcome: OutcomeInconclusive, exit: 5,
			line: "INCONCLUSIVE: 1 inconclusive, nothing passed, 0 passed, 0 skipped",
		},
		"untested": {
			results: res(must, Pass), untested: []Untested{{Claim: "RD"}, {Claim: "LSO"}},
			outcome: OutcomeUntested, exit: 7,
			line: "NOT TESTED: claimed and not tested: RD LSO, 1 passed, 0 skipped",
		},
		"untested and failed": {
			results: res(must, Fail), untested: []Untested{{Claim: "RD"}}, outcome: OutcomeFailed, exit: 1,
			line: "NOT CERTIFIED: 1 failed, nothing passed, claimed and not tested: RD, 0 passed, 0 skipped",
		},
		"error": {
			results: res(must, Fail, Error), outcome: OutcomeUnjudged, exit: 3,
			line: "NOT CERTIFIED: 1 failed, 1 could not be completed, nothing passed, 0 passed, 0 skipped",
		},
		"interrupted": {
			results: res(must, Pass), stopped: stoppedByContext, outcome: OutcomeUnjudged, exit: 3,
			line: "NOT CERTIFIED: stopped: interrupted, 1 passed, 0 skipped",
		},
		"stopped": {
			results: res(must, Pass), stopped: "found: x", outcome: OutcomeFailed, exit: 1,
			line: "NOT CERTIFIED: stopped: found: x, 1 passed, 0 skipped",
		},
		"advice": {
			results: append(res(should, Fail, Flaky, Inconclusive), res(must, Pass)...),
			outcome: OutcomePassed, exit: 0,
			line: "CERTIFIED: 1 passed, 0 skipped, 2 recommendations not met",
		},
		"selection": {
			results: res(must, Pass), selection: true, outcome: OutcomePassed, exit: 0,
			line: "SELECTION PASSED: 4 of 9 cases selected, 1 passed, 0 skipped",
		},
		"selection, flaky": {
			results: res(must, Pass, Flaky), selection: true, outcome: OutcomeFlaky, exit: 6,
			line: "SELECTION FLAKY: 1 flaky, 4 of 9 cases selected, 1 passed, 0 skipped",
		},
		"selection, inconclusive": {
			results: res(must, Pass, Inconclusive), selection: true, outcome: OutcomeInconclusive, exit: 5,
			line: "SELECTION INCONCLUSIVE: 1 inconclusive, 4 of 9 cases selected, 1 passed, 0 skipped",
		},
		"selection, untested": {
			results: res(must, Pass), selection: true, untested: []Untested{{Claim: "RD"}},
			outcome: OutcomePassed, exit: 0,
			line: "SELECTION PASSED: claimed and not tested: RD, 4 of 9 cases selected, 1 passed, 0 skipped",
		},
		"selection, not passed": {
			results: res(must, Skip), selection: true, outcome: OutcomeFailed, exit: 1,
			line: "SELECTION FAILED: nothing passed, 4 of 9 cases selected, 0 passed, 1 skipped",
		},
	} {
		r := &Report{
			Results: x.results, Untested: x.untested,
			Run: RunInfo{Driver: "d", Profile: "p", Seed: 1, Selected: 9, All: 9, Stopped: x.stopped},
		}
		if x.selection {
			r.Run.Selected = 4
		}
		r.setVerdict()
		assert.Equal(t, x.line+" (driver d, profile p, seed 1)", r.Verdict.Line, name)
		assert.Equal(t, x.outcome, r.Verdict.Outcome, name)
		assert.Equal(t, x.exit, r.Exit(), name)
		assert.Equal(t, x.exit == 0, r.Verdict.Certified, name)
	}
}

// TestMerge checks that a case is flaky if some of its attempts pass and some fail, also if Repeat asked for them.
func TestMerge(t *testing.T) {
	s := func(ss ...Status) (out []Result) {
		for _, x := range ss {
			out = append(out, Result{Status: x})
		}
		return out
	}
	for _, x := range []struct {
		in    []Result
		want  Status
		flaky string
	}{
		{s(Pass), Pass, ""},
		{s(Pass, Pass), Pass, ""},
		{s(Fail, Fail), Fail, ""},
		{s(Pass, Fail, Pass), Flaky, "1 of 3 attempts failed"},
		{s(Pass, Flaky), Flaky, "1 of 2 attempts failed"},
		{s(Inconclusive, Pass), Inconclusive, "1 of 2 attempts failed"},
		{s(Inconclusive, Fail), Fail, ""},
		{s(Error, Pass), Error, "1 of 2 attempts failed"},
	} {
		got := merge(slices.Clone(x.in))
		assert.Equal(t, x.want, got.Status, "%+v", x.in)
		assert.Equal(t, x.flaky, got.Flaky, "%+v", x.in)
	}
}

func TestStallMeter(t *testing.T) {
	m := startStallMeter()
	m.stop()
	var c Conditions
	m.read(&c)
	assert.Less(t, c.Stalled, 1.01)
	assert.NotPanics(t, func() { (*stallMeter)(nil).read(&c) })
	m.max.Store(int64(80 * time.Millisecond))
	m.total.Store(int64(time.Hour))
	m.read(&c)
	assert.True(t, c.busy())
	assert.True(t, c.starved())
	assert.Contains(t, c.String(), "ran up to 80ms late and waited for 100% of the time")
}

func TestConditions(t *testing.T) {
	quiet := Conditions{Stall: Elapsed(time.Millisecond), Stalled: 0.01, Ran: 0.1}
	delayed := Conditions{Delay: Elapsed(maxStall), Waited: 0.1, Ran: 0.02}
	for name, x := range map[string]struct {
		c             Conditions
		busy, starved bool
	}{
		"quiet machine":                         {quiet, false, false},
		"goroutines run late":                   {Conditions{Stall: Elapsed(maxStall)}, true, false},
		"goroutines run late most of the time":  {Conditions{Stalled: maxStalled}, true, true},
		"threads wait for other processes":      {Conditions{Waited: 0.6, Ran: 0.02}, true, true},
		"a thread waits":                        {delayed, true, false},
		"threads wait a little":                 {Conditions{Waited: 0.4, Ran: 0.02}, false, false},
		"threads of the driver keep it waiting": {Conditions{Waited: 9, Ran: 1.9}, false, false},
	} {
		assert.Equal(t, x.busy, x.c.busy(), name)
		assert.Equal(t, x.starved, x.c.starved(), name)
	}
}

func TestCPUMeter(t *testing.T) {
	var none Conditions
	cpuMeter{begin: time.Now().Add(-time.Second)}.read(&none)
	assert.Equal(t, Conditions{}, none, "a system that counts nothing")
	m := startCPUMeter(0)
	if !m.ok {
		t.Skip("the system does not count the processor time of threads")
	}
	m.begin = time.Now().Add(-time.Second)
	m.first.run -= 300 * time.Millisecond
	m.first.wait -= 600 * time.Millisecond
	var c Conditions
	m.read(&c)
	assert.Greater(t, c.Ran, 0.1)
	assert.Greater(t, c.Waited, 0.2)
	assert.GreaterOrEqual(t, time.Duration(c.Delay), 600*time.Millisecond)
}
