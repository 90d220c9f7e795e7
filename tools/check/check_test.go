package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

func TestResults(t *testing.T) {
	tests := []struct {
		name                    string
		lines                   []string
		passed, failed, skipped int
		prints                  []string
	}{
		{"pass, skip and fail", []string{
			`{"Action":"output","Package":"m/a","Test":"TestA","Output":"quiet\n"}`,
			`{"Action":"pass","Package":"m/a","Test":"TestA"}`,
			`{"Action":"output","Package":"m/a","Test":"TestB",` +
				`"Output":"=== RUN   TestB\n    a_test.go:3: needs root\n--- SKIP: TestB (0.00s)\n"}`,
			`{"Action":"skip","Package":"m/a","Test":"TestB"}`,
			`{"Action":"output","Package":"m/a","Test":"TestC","Output":"got 1, want 2\n"}`,
			`{"Action":"fail","Package":"m/a","Test":"TestC"}`,
			`{"Action":"fail","Package":"m/a"}`}, 1, 1, 1, []string{"skip  m/a TestB: a_test.go:3: needs root\n",
			"got 1, want 2", "FAIL  m/a"}},
		{"a package that does not build", []string{
			`{"ImportPath":"m/b","Action":"build-output","Output":"b.go:1: no\n"}`,
			`{"Action":"fail","Package":"m/b","FailedBuild":"m/b"}`}, 0, 1, 0, []string{"b.go:1: no"}},
		{"a package that fails outside its tests", []string{
			`{"Action":"pass","Package":"m/c","Test":"TestA"}`,
			`{"Action":"output","Package":"m/c","Output":"leaked goroutine\n"}`,
			`{"Action":"fail","Package":"m/c"}`}, 1, 1, 0, []string{"leaked goroutine"}},
		{"a package whose time is over", []string{
			`{"Action":"run","Package":"m/a","Test":"TestA"}`,
			`{"Action":"output","Package":"m/a","Test":"TestA","Output":"=== RUN   TestA\n"}`,
			`{"Action":"pass","Package":"m/a","Test":"TestA"}`,
			`{"Action":"run","Package":"m/a","Test":"TestB"}`,
			`{"Action":"run","Package":"m/a","Test":"TestB/sub"}`,
			`{"Action":"output","Package":"m/a","Test":"TestB/sub",` +
				`"Output":"    a_test.go:4: hello\npanic: test timed out after 1s\n\trunning` +
				` tests:\n\t\tTestB (1s)\n\n"}`,
			`{"Action":"output","Package":"m/a","Test":"TestB/sub",` +
				`"Output":"goroutine 5 [running]:\ntesting.(*M).startAlarm.func1()\n\n"}`,
			`{"Action":"output","Package":"m/a","Test":"TestB/sub",` +
				`"Output":"goroutine 21 [sync.Mutex.Lock]:\nm/a.TestB.func1(0x1)\n\t/a_test.go:4\n"}`,
			`{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t1.007s\n"}`,
			`{"Action":"fail","Package":"m/a","Elapsed":1.038}`}, 1, 2, 0, []string{
			"FAIL  m/a TestB did not end\nFAIL  m/a TestB/sub did not end\n    a_test.go:4: hello\npanic: test timed " +
				"out",
			"1 goroutines in packages of the project:\n\ngoroutine 21 [sync.Mutex.Lock]:\nm/a.TestB.func1",
			"1 other goroutines:\n\ngoroutine 5", "FAIL  m/a\n"}},
		{"a run that is stopped", []string{
			`{"Action":"run","Package":"m/a","Test":"TestA"}`}, 0, 0, 0, []string{"stopped  m/a TestA\n"}},
		{"twice, the worse counts", []string{
			`{"Action":"pass","Package":"m/d","Test":"TestA"}`,
			`{"Action":"fail","Package":"m/d","Test":"TestA"}`,
			`{"Action":"skip","Package":"m/d","Test":"TestB"}`,
			`{"Action":"pass","Package":"m/d","Test":"TestB"}`}, 1, 1, 0, nil},
		{"a line that is no event", []string{"go: downloading"}, 0, 0, 0, []string{"go: downloading"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, out := results{}, new(bytes.Buffer)
			require.NoError(t, r.tests(strings.NewReader(strings.Join(tt.lines, "\n")), out, "m", new(ends)))
			p, f, s, _ := r.count()
			assert.Equal(t, [3]int{tt.passed, tt.failed, tt.skipped}, [3]int{p, f, s})
			for _, want := range tt.prints {
				assert.Contains(t, out.String(), want)
			}
			assert.NotContains(t, out.String(), "quiet")
		})
	}
}

// TestSummary runs go test on a module with tests that fail when they run first. None is repeated, and the summary ends
// with what they printed and with their names.
func TestSummary(t *testing.T) {
	dir := t.TempDir()
	const once = "if _, err := os.Stat(t.Name()); err != nil { os.WriteFile(t.Name(), nil, 0o600); "
	for file, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"a_test.go": "package m\n\nimport (\n\"os\"\n\"testing\"\n)\n\n" +
			"func TestA(t *testing.T) { " + once + "t.Run(\"x\", func(t *testing.T) { t.Error(\"bad\") }) } }\n\n" +
			"func TestB(t *testing.T) { " + once + "panic(\"worse\") } }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	out := new(testenv.Output) // go test's standard error is copied by a goroutine
	r := &runner{out: out, root: dir, results: results{}}
	test := step{name: "test", limit: 5 * time.Minute,
		run: func(ctx context.Context, r *runner) error { return r.goTest(ctx, nil, "./...") }}
	assert.Equal(t, exitFailed, r.all(t.Context(), []step{test}), out.String())
	_, summary, _ := strings.Cut(out.String(), "=== summary\n")
	assert.Regexp(t, `(?s)^test .*\ntogether .*\nm TestA/x:\n    a_test.go:\d+: bad\n`+
		`m TestB.*:\n    panic: worse.*\nFAIL m TestA/x\nFAIL m TestB\nFAIL step test\n\n`+
		`0 passed, 4 failed, 0 skipped\n$`, summary)
	assert.NotContains(t, summary, "m TestA:")
	assert.NotContains(t, summary, "FAIL m TestA\n")
}

func TestAll(t *testing.T) {
	ok := func(context.Context, *runner) error { return nil }
	stopped := func(ctx context.Context, _ *runner) error { <-ctx.Done(); return errors.New("signal: killed") }
	tests := []struct {
		name  string
		steps []step
		exit  int
		last  string
	}{
		{"all pass", []step{{name: "a", limit: time.Minute, run: ok}, {name: "b", limit: time.Minute, run: ok}}, 0,
			"2 passed, 0 failed, 0 skipped"},
		{"a skip is no failure",
			[]step{{name: "a", limit: time.Minute,
				run: func(context.Context, *runner) error { return skip("no gcc") }}}, 0,
			"0 passed, 0 failed, 1 skipped"},
		{"a failure does not stop the rest",
			[]step{{name: "a", limit: time.Minute,
				run: func(context.Context, *runner) error { return errors.New("bad") }},
				{name: "b", limit: time.Minute, run: ok}}, exitFailed, "1 passed, 1 failed, 0 skipped"},
		{"the limit is no failure", []step{{name: "a", limit: time.Nanosecond, run: stopped},
			{name: "b", limit: time.Minute,
				run: ok}}, exitTooSlow,
			"1 passed, 0 failed, 0 skipped, 1 too slow here (not checked; no failure of the code)"},
		{"a defect before the limit is one",
			[]step{{name: "a", limit: time.Nanosecond, run: func(ctx context.Context, _ *runner) error {
				<-ctx.Done()
				return defect{errors.New("bad")}
			}}}, exitFailed, "0 passed, 1 failed, 0 skipped"},
		{"a failed test before the limit is one",
			[]step{{name: "test", limit: time.Nanosecond, run: func(ctx context.Context, r *runner) error {
				r.results.set("m/a TestA", "fail")
				return stopped(ctx, r)
			}}}, exitFailed, "0 passed, 2 failed, 0 skipped"},
		{"test steps count by their tests",
			[]step{{name: "test", limit: time.Minute, run: func(_ context.Context, r *runner) error {
				r.results.set("m/a TestA", "pass")
				return nil
			}}}, 0, "1 passed, 0 failed, 0 skipped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out := new(bytes.Buffer)
			r := &runner{out: out, results: results{}}
			assert.Equal(t, tt.exit, r.all(t.Context(), tt.steps))
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			assert.Equal(t, tt.last, lines[len(lines)-1])
			assert.Equal(t, tt.exit == exitTooSlow, strings.Contains(out.String(), "TOO SLOW HERE (stopped after"))
		})
	}
}

func TestAllStopped(t *testing.T) {
	for _, tt := range []struct {
		cause      error
		exit       int
		line, last string
	}{
		{errInterrupted, exitFailed, "FAIL (interrupted)", "0 passed, 2 failed, 0 skipped"},
		{errTooSlow, exitTooSlow, "TOO SLOW HERE (not run: the whole run is stopped after 75m)",
			"0 passed, 0 failed, 0 skipped, 2 too slow here"},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := new(bytes.Buffer)
		r := &runner{out: out, results: results{}}
		assert.Equal(t, tt.exit, r.all(ctx, []step{
			{name: "a", limit: time.Minute, run: func(context.Context, *runner) error { cancel(tt.cause); return nil }},
			{name: "b", limit: time.Minute, run: func(context.Context, *runner) error { return nil }}}))
		assert.Contains(t, out.String(), tt.line)
		assert.Contains(t, out.String(), tt.last)
	}
}

// TestCores checks that the cores have a run of each kind, and fuzz targets that exist.
func TestCores(t *testing.T) {
	t.Setenv(testenv.WholeVariable, "")
	var lines []string
	for _, args := range certifierRuns(io.Discard) {
		lines = append(lines, strings.Join(args, " "))
	}
	core := strings.Join(lines, "\n")
	kinds := []string{"reference --link udp", "reference --link direct", "reference --link network", "odd=1", "legal=",
		"claims=few", "agents=", "mlx4 --link infiniband"}
	if runtime.GOOS == "linux" {
		kinds = append(kinds, "--through accesslayer", "--through user", "--through bypass", "--link ethernet")
	}
	for _, kind := range kinds {
		assert.Contains(t, core, kind)
	}
	t.Setenv(testenv.WholeVariable, "1")
	assert.Greater(t, len(certifierRuns(io.Discard)), 2*len(lines))
	r := &runner{root: "../.."}
	targets, err := r.testFunctions("Fuzz")
	require.NoError(t, err)
	assert.Subset(t, targets, fuzzCore)
	_, err = r.testFunctions("TestThatNobodyWrote")
	assert.ErrorContains(t, err, "no test file has")
}

// TestTimes checks that the quick run takes at most 6 minutes and the full one at most 37, and that every step may be
// several times slower than expected.
func TestTimes(t *testing.T) {
	for full, most := range map[bool]time.Duration{false: 6 * time.Minute, true: 37 * time.Minute} {
		var total time.Duration
		for _, s := range steps(full, new(repetition)) {
			if s.when == byName || s.when == inFull && !full {
				continue
			}
			total += s.expect
			assert.Positive(t, s.expect, s.name)
			assert.GreaterOrEqual(t, s.limit, 9*s.expect/4, s.name)
		}
		assert.LessOrEqual(t, total, most, "-full=%v", full)
	}
}

func TestUsage(t *testing.T) {
	tests := []struct {
		name        string
		args        []string
		exit        int
		out, errout string
	}{
		{"list", []string{"-list"}, 0, "race", ""},
		{"unknown step", []string{"nosuch"}, 2, "", `no step "nosuch"`},
		{"unknown flag", []string{"-nosuch"}, 2, "", "nosuch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errout bytes.Buffer
			assert.Equal(t, tt.exit, run(tt.args, &out, &errout))
			assert.Contains(t, out.String(), tt.out)
			assert.Contains(t, errout.String(), tt.errout)
		})
	}
}

func TestRanOut(t *testing.T) {
	over := "fuzz: elapsed: 18s, execs: 5\nfuzz: elapsed: 20s, execs: 6\n--- FAIL: FuzzX (20.08s)\n    context " +
		"deadline exceeded\nFAIL\nexit status 1\nFAIL\tm/a\t20.1s\n"
	assert.True(t, ranOut(over))
	for name, out := range map[string]string{
		"passed": "fuzz: elapsed: 20s, execs: 6\nPASS\n",
		"an input fails": "fuzz: elapsed: 2s, execs: 6\n--- FAIL: FuzzX (2.08s)\n" +
			"    --- FAIL: FuzzX (0.00s)\n        " +
			"x_test.go:5: bad\n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n",
		"a hang": "fuzz: elapsed: 20s, execs: 6\n--- FAIL: FuzzX (20.08s)\n    fuzzing process hung or terminated " +
			"unexpectedly: exit status 2\n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n",
		"never began": "--- FAIL: FuzzX (0.08s)\n    context deadline exceeded\nFAIL\n",
	} {
		assert.False(t, ranOut(out), name)
	}
}

func TestLastFuzzLine(t *testing.T) {
	assert.Equal(t, "elapsed: 6s, execs: 20", lastFuzzLine("fuzz: elapsed: 3s, execs: 10\nfuzz: elapsed: 6s, execs: "+
		"20\nPASS\n"))
	assert.Empty(t, lastFuzzLine("PASS\n"))
}
