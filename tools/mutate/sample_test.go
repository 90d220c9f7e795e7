package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbered returns n mutants that differ.
func numbered(n int) []mutant {
	list := make([]mutant, n)
	for i := range list {
		list[i] = mutant{File: "rvt/x.go", Line: i + 1, Start: 10 * i, Function: "rvt.f", Operator: opConstant,
			Old: "1", New: fmt.Sprint(i + 2)}
	}
	return list
}

func ids(order []mutant) []string {
	var list []string
	for i := range order {
		list = append(list, order[i].id())
	}
	return list
}

func TestShuffle(t *testing.T) {
	all := numbered(50)
	a, b, c := shuffle(all, 7), shuffle(all, 7), shuffle(all, 8)
	assert.Equal(t, ids(a), ids(b))
	assert.NotEqual(t, ids(a), ids(c))
	assert.ElementsMatch(t, ids(all), ids(a))
	assert.Equal(t, ids(numbered(50)), ids(all), "the argument changed")
}

// fakeJudge judges by the line: every third mutant does not compile, every fourth of the others survives.
type fakeJudge struct {
	mu    sync.Mutex
	calls []string
	err   error
}

func (f *fakeJudge) judge(_ context.Context, m *mutant, earlier *result) (result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, m.id())
	if f.err != nil {
		return result{}, f.err
	}
	if earlier != nil {
		return *earlier, nil
	}
	r := result{mutant: *m, Verdict: killed}
	if m.Line%3 == 0 {
		r.Verdict = unbuilt
	} else if m.Line%4 == 0 {
		r.Verdict = survived
	}
	return r, nil
}

func (f *fakeJudge) sampling(n, jobs int) *sampling {
	return &sampling{n: n, jobs: jobs, judge: f.judge, save: func(*result) error { return nil }, out: io.Discard}
}

func TestSampling(t *testing.T) {
	order := shuffle(numbered(60), 3)
	var first []result
	for _, jobs := range []int{1, 4} {
		f := new(fakeJudge)
		s := f.sampling(20, jobs)
		s.exclusions = []exclusion{{Function: "rvt.f", Change: "1 -> 6", Reason: "it is the same"}}
		results, err := s.run(t.Context(), order)
		require.NoError(t, err)
		assert.Equal(t, 20, scoreOf(results).judged())
		for _, r := range results {
			assert.NotEqual(t, unbuilt, r.Verdict)
			assert.Equal(t, r.New == "6", r.Verdict == excluded)
		}
		if first == nil {
			first = results
		}
		assert.Equal(t, first, results, "the sample depends on the number of jobs")
	}
}

func TestSamplingResumes(t *testing.T) {
	order := numbered(4)
	f := new(fakeJudge)
	s := f.sampling(3, 1)
	s.done = map[string]result{order[0].id(): {mutant: order[0], Verdict: survived}}
	results, err := s.run(t.Context(), order)
	require.NoError(t, err)
	assert.Equal(t, survived, results[0].Verdict)
}

// TestSamplingPrepares checks that each round is prepared without the mutants that have a result.
func TestSamplingPrepares(t *testing.T) {
	order := numbered(12)
	f := new(fakeJudge)
	s := f.sampling(6, 2)
	s.done = map[string]result{order[1].id(): {mutant: order[1], Verdict: survived}}
	var rounds [][]string
	s.prepare = func(_ context.Context, round []*mutant) error {
		var list []string
		for _, m := range round {
			list = append(list, m.id())
		}
		rounds = append(rounds, list)
		return nil
	}
	_, err := s.run(t.Context(), order)
	require.NoError(t, err)
	all := ids(order)
	assert.Equal(t, [][]string{{all[0], all[2], all[3], all[4], all[5]}, all[6:8]}, rounds,
		"two of the first round do not compile")

	failure := errors.New("no compiler")
	s.prepare = func(context.Context, []*mutant) error { return failure }
	_, err = s.run(t.Context(), order)
	assert.ErrorIs(t, err, failure)

	isOver := false
	s.prepare = func(context.Context, []*mutant) error { isOver = true; return errLate }
	s.isOver = func() bool { return isOver }
	results, err := s.run(t.Context(), order)
	require.NoError(t, err)
	assert.Empty(t, results)
}

func TestSamplingEnds(t *testing.T) {
	f := new(fakeJudge)
	s := f.sampling(10, 1)
	s.isOver = func() bool { return len(f.calls) >= 5 }
	results, err := s.run(t.Context(), numbered(40))
	require.NoError(t, err)
	assert.Len(t, f.calls, 5)
	assert.Len(t, results, 4, "one of the five does not compile")

	// A mutant that does not end in time has no verdict.
	ctx, cancel := context.WithCancelCause(t.Context())
	s = f.sampling(10, 2)
	s.judge = func(ctx context.Context, m *mutant, earlier *result) (result, error) {
		if m.Line < 3 {
			return f.judge(ctx, m, earlier)
		}
		cancel(errLate)
		<-ctx.Done()
		return result{}, context.Cause(ctx)
	}
	s.isOver = func() bool { return ctx.Err() != nil }
	results, err = s.run(ctx, numbered(40))
	require.NoError(t, err)
	assert.Len(t, results, 2)
	s.judge = func(ctx context.Context, _ *mutant, _ *result) (result, error) { return result{}, context.Cause(ctx) }
	results, err = s.run(ctx, numbered(40))
	require.NoError(t, err)
	assert.Empty(t, results)

	failure := errors.New("no disk")
	_, err = (&fakeJudge{err: failure}).sampling(10, 2).run(t.Context(), numbered(40))
	assert.ErrorIs(t, err, failure)

	_, err = f.sampling(10, 2).run(t.Context(), nil)
	assert.ErrorIs(t, err, errNone)
}

func TestScore(t *testing.T) {
	results := []result{{Verdict: killed}, {Verdict: killed}, {Verdict: survived, Tests: killed},
		{Verdict: survived, Tests: survived}, {Verdict: survived, Tests: survived}, {Verdict: survived,
			Tests: survived},
		{Verdict: excluded}, {Verdict: unbuilt}}
	s := scoreOf(results)
	assert.Equal(t, score{certifier: 2, tests: 1, survived: 3, isTested: true}, s)
	assert.Equal(t, 6, s.judged())
	assert.Equal(t, 33, s.percent())
	assert.Equal(t, 50, s.together())
	assert.Zero(t, score{}.percent())
}

func TestPrintReport(t *testing.T) {
	var b bytes.Buffer
	printReport(&b, []result{
		{mutant: mutant{File: "sma/b.go", Line: 9, Operator: opDelete, Function: "sma.f"}, Verdict: survived,
			Diff: "- g()\n"},
		{mutant: mutant{File: "rvt/a.go"}, Verdict: killed},
		{mutant: mutant{File: "rvt/a.go", Start: 5}, Verdict: excluded, Detail: "texts for people"},
	}, 5, "abc")
	assert.Equal(t, `survivor sma/b.go:9: delete in sma.f
- g()

excluded    1  texts for people
rvt                             1 mutants, 100%
sma                             1 mutants,   0%
Mutation score: 50% (1 of 2 mutants killed by the certifier, seed 5, commit abc)
`, b.String())
}

func TestPrintReportOfNothing(t *testing.T) {
	var b bytes.Buffer
	printReport(&b, nil, 5, "abc")
	assert.Equal(t, "No mutant was judged in time (seed 5, commit abc)\n", b.String())
}

func TestResults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	m := numbered(3)
	f, done, err := openResults(name, "c1", false)
	require.NoError(t, err)
	assert.Empty(t, done)
	for _, r := range []result{
		{mutant: m[0], Commit: "c1", Verdict: survived},
		{mutant: m[0], Commit: "c1", Verdict: survived, Tests: killed},
		{mutant: m[1], Commit: "c0", Verdict: killed},
	} {
		require.NoError(t, f.add(&r))
	}
	require.NoError(t, f.close())
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, append(b, `{"file":"rv`...), 0o644), "a run that was interrupted")

	f, done, err = openResults(name, "c1", false)
	require.NoError(t, err)
	require.Len(t, done, 1)
	assert.Equal(t, killed, done[m[0].id()].Tests, "the last line counts")
	require.NoError(t, f.add(&result{mutant: m[2], Commit: "c1", Verdict: killed}))
	require.NoError(t, f.close())
	b, err = os.ReadFile(name)
	require.NoError(t, err)
	list, err := readResults(bytes.NewReader(b))
	require.NoError(t, err)
	assert.Len(t, list, 3)

	f, done, err = openResults(name, "c1", true)
	require.NoError(t, err)
	assert.Empty(t, done, "results of another source were reused")
	require.NoError(t, f.close())
	_, err = readResults(strings.NewReader("{}\nno\n{}\n"))
	assert.ErrorContains(t, err, "line 2")
}

func TestSurvivorsOf(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	f, _, err := openResults(name, "c1", false)
	require.NoError(t, err)
	m := numbered(4)
	gone := m[3]
	gone.New = "99"
	for i, r := range []result{{mutant: m[0], Verdict: killed}, {mutant: m[1], Verdict: survived},
		{mutant: m[2], Verdict: survived}, {mutant: gone, Verdict: survived}} {
		require.NoError(t, f.add(&r), i)
	}
	require.NoError(t, f.close())
	now := slices.Clone(m)
	for i := range now { // the source above them has grown
		now[i].Line += 5
		now[i].Start += 100
	}
	var out bytes.Buffer
	list, err := survivorsOf(name, now, &out)
	require.NoError(t, err)
	assert.Equal(t, ids(now[1:3]), ids(list))
	assert.Equal(t, "gone     rvt/x.go:4: 1 -> 99\n", out.String())
}

func TestNearest(t *testing.T) {
	all := []mutant{{File: "a.go", Line: 3}, {File: "a.go", Line: 20}, {File: "b.go", Line: 10}}
	assert.Equal(t, &all[1], nearest(all, &mutant{File: "a.go", Line: 14}))
	assert.Nil(t, nearest(all, &mutant{File: "c.go"}))
}

func TestMutantsAt(t *testing.T) {
	all := []mutant{{File: "sma/trap.go", Line: 3, New: "a"}, {File: "sma/trap.go", Line: 20, New: "b"},
		{File: "sma/strap.go", Line: 3, New: "c"}, {File: "rvt/trap.go", Line: 3, New: "d"}}
	for _, tt := range []struct {
		places []string
		want   []mutant
	}{
		{[]string{"sma/trap.go:3"}, all[:1]},
		{[]string{"sma/trap.go"}, all[:2]},
		{[]string{"trap.go:3"}, []mutant{all[0], all[3]}},
		{[]string{"sma/trap.go:20", " sma/trap.go"}, []mutant{all[1], all[0]}},
	} {
		got, err := mutantsAt(all, tt.places)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got, tt.places)
	}
	_, err := mutantsAt(all, []string{"sma/trap.go", "trap.go:4"})
	assert.ErrorContains(t, err, `no mutant at "trap.go:4"`)
}
