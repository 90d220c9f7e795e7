package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
)

// toyModule writes a module whose ddk-validate fails if package rvt adds wrongly, and hangs or panics for other faults.
func toyModule(t *testing.T) *judge {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module toy\n\ngo 1.26\n",
		"rvt/rvt.go": `package rvt

func Sum(a, b int) int { return a + b }

func Unseen(a int) bool { return a < 3 }

func Tested(a int) bool { return a < 3 }

func Ends() bool { return true }
`,
		"rvt/rvt_test.go": `package rvt

import "testing"

func TestTested(t *testing.T) {
	if Tested(3) {
		t.Fatal("FAIL: 3 is less than 3")
	}
}
`,
		"cmd/ddk-validate/main.go": `package main

import (
	"fmt"
	"os"

	"toy/rvt"
)

func main() {
	for !rvt.Ends() {
	}
	if rvt.Sum(2, 3) != 5 {
		fmt.Println("FAIL rc.sum", os.Args[1:])
		os.Exit(1)
	}
}
`,
	} {
		file := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	j := newJudge(root, t.TempDir())
	j.hasTests = true
	return j
}

// mutantOf returns the mutant of the toy module's package with an edit in a function.
func mutantOf(t *testing.T, j *judge, function, change string) *mutant {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(j.root, "rvt", "rvt.go"))
	require.NoError(t, err)
	found, err := find("rvt/rvt.go", src, nil)
	require.NoError(t, err)
	for i := range found {
		if found[i].Function == "rvt."+function && found[i].change() == change {
			return &found[i]
		}
	}
	t.Fatalf("no mutant %s in %s", change, function)
	return nil
}

func TestJudge(t *testing.T) {
	j := toyModule(t)
	r, err := j.judge(t.Context(), mutantOf(t, j, "Sum", "+ -> -"), nil)
	require.NoError(t, err)
	assert.Equal(t, killed, r.Verdict)
	assert.Equal(t, "--link direct", r.Run)
	assert.Equal(t, "FAIL rc.sum [run reference --quiet --fail-fast --workers 4 --link direct]", r.Detail)

	r, err = j.judge(t.Context(), mutantOf(t, j, "Unseen", "< -> <="), nil)
	require.NoError(t, err)
	assert.Equal(t, survived, r.Verdict)
	assert.Equal(t, survived, r.Tests)

	r, err = j.judge(t.Context(), mutantOf(t, j, "Tested", "< -> <="), nil)
	require.NoError(t, err)
	assert.Equal(t, survived, r.Verdict)
	assert.Equal(t, killed, r.Tests)

	m := mutantOf(t, j, "Sum", "+ -> -")
	m.New = "-;"
	r, err = j.judge(t.Context(), m, nil)
	require.NoError(t, err)
	assert.Equal(t, unbuilt, r.Verdict)

	left, err := os.ReadDir(j.dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "only the binary without a mutant stays")
	assert.Equal(t, "plain", strings.TrimSuffix(left[0].Name(), ".exe"))
}

// TestJudgeEarlier checks that an earlier verdict of the certifier is kept and the missing tests are run.
func TestJudgeEarlier(t *testing.T) {
	j := toyModule(t)
	m := mutantOf(t, j, "Tested", "< -> <=")
	r, err := j.judge(t.Context(), m, &result{mutant: *m, Verdict: survived})
	require.NoError(t, err)
	assert.Equal(t, killed, r.Tests)
	r, err = j.judge(t.Context(), m, &result{mutant: *m, Verdict: killed, Run: "earlier"})
	require.NoError(t, err)
	assert.Equal(t, "earlier", r.Run)
}

// TestHang checks that a mutant that never ends is stopped and counts as killed.
func TestHang(t *testing.T) {
	j := toyModule(t)
	file := filepath.Join(j.root, "rvt", "rvt.go")
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(src, []byte("return true"), []byte("return false"), 1), 0o644))
	bin, output, err := j.build(t.Context(), "hangs", "")
	require.NoError(t, err)
	require.NotEmpty(t, bin, output)
	o, err := j.execute(t.Context(), 100*time.Millisecond, program{path: bin})
	require.NoError(t, err)
	assert.True(t, o.isHang)
	assert.True(t, isKill(o))
	assert.Equal(t, "stopped at the time limit", detail(o))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = j.execute(ctx, time.Minute, program{path: bin})
	assert.ErrorIs(t, err, context.Canceled)
}

// TestBaseline checks that a certifier that rejects the software without a mutant is an error of the run.
func TestBaseline(t *testing.T) {
	j := toyModule(t)
	file := filepath.Join(j.root, "rvt", "rvt.go")
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, bytes.Replace(src, []byte("a + b"), []byte("a * b"), 1), 0o644))
	_, err = j.judge(t.Context(), mutantOf(t, j, "Unseen", "< -> <="), nil)
	assert.ErrorContains(t, err, "--link direct fails without a mutant (status 1): FAIL rc.sum")
}

// TestUncertainBaseline checks that a run without a mutant is repeated while its result is uncertain.
func TestUncertainBaseline(t *testing.T) {
	j := newJudge(t.TempDir(), t.TempDir())
	file := filepath.Join(j.dir, "count")
	script := fmt.Sprintf("echo >>%s; test $(wc -l <%s) = 3 || exit 6", file, file)
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	_, err := j.measure(t.Context(), "key", program{path: "/bin/sh"}, "-c", script)
	require.NoError(t, err)
	_, err = j.measure(t.Context(), "key", program{path: "/bin/sh"}, "-c", "echo flaky; exit 6")
	assert.EqualError(t, err, "key fails without a mutant (status 6): flaky")
}

// TestConfirmSkipped checks that a kill is confirmed by a case that is skipped without the mutant, and not by one that
// fails without it.
func TestConfirmSkipped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for output, wrong := range map[string]string{
		"SELECTION FAILED: nothing passed, 1 of 9 cases selected, 0 passed, 1 skipped": "",
		"SELECTION FAILED: 1 failed, nothing passed, 1 of 9 cases selected":            "fails without a mutant",
	} {
		j := newJudge(t.TempDir(), t.TempDir())
		file := filepath.Join(j.dir, "plain")
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\necho '"+output+"'\nexit 1\n"), 0o755))
		j.plain = func(context.Context) (program, error) { return program{path: file}, nil }
		err := j.confirm(t.Context(), byDirect, outcome{status: 1, output: "FAIL claims.map-dma"})
		if wrong == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, wrong)
	}
}

// TestWithholds checks that an uncertain result counts only if the software without the mutant passes each time and the
// mutant never does.
func TestWithholds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for name, tt := range map[string]struct {
		plain, mutant string
		want          bool
	}{
		"only the mutant":      {"exit 0", "exit 5", true},
		"the mutant, at times": {"exit 0", "echo >>$0.n; test $(wc -l <$0.n) = 1 && exit 5; exit 0", false},
		"both":                 {"exit 5", "exit 5", false},
		"the other, at times":  {"echo >>$0.n; test $(wc -l <$0.n) = 1 || exit 5", "exit 5", false},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(t.TempDir(), t.TempDir())
			script := func(name, text string) program {
				file := filepath.Join(j.dir, name)
				require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
				return program{path: file}
			}
			plain := script("plain.sh", tt.plain)
			j.plain = func(context.Context) (program, error) { return plain, nil }
			_, got, err := j.withholds(t.Context(), script("mutant.sh", tt.mutant), byDirect)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestIsKill(t *testing.T) {
	for _, tt := range []struct {
		o    outcome
		want bool
	}{
		{outcome{status: 0}, false},
		{outcome{status: 1}, true},
		{outcome{status: 2, output: "ddk-validate: unknown flag"}, false},
		{outcome{status: 2, output: "panic: x\n\ngoroutine 1 [running]:"}, true},
		{outcome{status: 3}, true},
		{outcome{status: 5}, false},
		{outcome{status: 6}, false},
		{outcome{status: 7}, true},
		{outcome{status: -1}, true},
		{outcome{isHang: true}, true},
	} {
		assert.Equal(t, tt.want, isKill(tt.o), "%+v", tt.o)
		assert.Equal(t, strings.Contains(tt.o.output, "unknown flag"), isUsage(tt.o), "%+v", tt.o)
	}
}

func TestLacks(t *testing.T) {
	rejected := func(pattern string) outcome {
		return outcome{status: 4, output: `ddk-validate: no case matches "` + pattern + `"; did you mean x?`}
	}
	for _, tt := range []struct {
		list string
		o    outcome
		left string
		want bool
	}{
		{"a.*,b.c", rejected("b.c"), "a.*", true},
		{"a.*, b.c", rejected("b.c"), "a.*", true},
		{"b.c", rejected("b.c"), "", true},
		{"a.*,b.c", rejected("d"), "a.*,b.c", false},
		{"a.*,b.c", outcome{status: 1, output: `no case matches "b.c"`}, "a.*,b.c", false},
		{"a.*,b.c", outcome{status: 4, output: "no case matches feature x"}, "a.*,b.c", false},
		{"", rejected("b.c"), "", false},
	} {
		list := tt.list
		assert.Equal(t, tt.want, lacks(&list, tt.o), "%+v", tt)
		assert.Equal(t, tt.left, list, "%+v", tt)
	}
}

func TestComplaint(t *testing.T) {
	assert.Equal(t, "FAIL rc.sum: 4", complaint("cases\n  FAIL  rc.sum:   4\nFAIL other\n"))
	assert.Equal(t, "a b", complaint("a\nb\n"))
	assert.Equal(t, "cq.stale", complaint("\nFailures\n\n  cq.stale\n    attempt 1: FAIL\n"))
	assert.Len(t, []rune(complaint(strings.Repeat("x", 1000))), 161)
}

func TestHead(t *testing.T) {
	var h head
	for range 3 {
		n, err := h.Write(make([]byte, maxOutput/2+1))
		require.NoError(t, err)
		assert.Equal(t, maxOutput/2+1, n)
	}
	assert.Equal(t, maxOutput, h.Len())
}

func TestRoutes(t *testing.T) {
	runs, err := routeOf("link/udp")
	require.NoError(t, err)
	assert.Equal(t, []certification{byUDP, byIP6, bySources, bySources6}, runs)
	runs, err = routeOf("rvt")
	require.NoError(t, err)
	want := []certification{byDirect, byFew, byModel, byPolling, byNetwork, byOdd}
	if runtime.GOOS == "linux" {
		want = append(want, byRings, onlyUser)
	}
	assert.Equal(t, want, runs)
	_, err = routeOf("validate")
	assert.EqualError(t, err, "no certification reaches validate; add it to routes")
	assert.False(t, isKit("rvt"))
	assert.True(t, isKit("accesslayer/mads"))
	folders := []string{"rvt", "ci/driver", "hca/reference", "link", "internal/train", "sma", "accesslayer", "ual"}
	if runtime.GOOS == "linux" {
		folders = append(slices.Insert(folders, 3, "internal/rings"), "kproxy")
	}
	assert.Equal(t, folders, defaultFolders())
}

// TestExclusions checks that every entry of exclusions.yaml matches code.
func TestExclusions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("entries name files of Linux")
	}
	root, err := modroot.Find()
	require.NoError(t, err)
	all, exclusions, err := load(root, defaultFolders())
	require.NoError(t, err)
	assert.NoError(t, checkExclusions(exclusions, all))
}

func TestParseExclusions(t *testing.T) {
	list, err := parseExclusions([]byte("- function: rvt.f\n  change: 1 -> 2\n  reason: it is the same\n" +
		"- function: \"*.String\"\n  reason: texts for people\n- package: link/frame\n  reason: no link of it\n" +
		"- function: rvt.g\n  code: [a = 1, c = 1]\n  reason: any number will do\n" +
		"- file: rvt/b.go\n  reason: of another system\n"))
	require.NoError(t, err)
	for _, tt := range []struct {
		m    mutant
		want string
	}{
		{mutant{File: "rvt/a.go", Function: "rvt.f", Old: "1", New: "2"}, "it is the same"},
		{mutant{File: "rvt/a.go", Function: "rvt.f", Old: "1", New: "0"}, ""},
		{mutant{File: "rvt/a.go", Function: "rvt.(*QP).String"}, "texts for people"},
		{mutant{File: "rvt/a.go", Function: "rvt.(*QP).toString"}, ""},
		{mutant{File: "link/frame/x/a.go", Function: "link/frame/x.f"}, "no link of it"},
		{mutant{File: "link/frames/a.go", Function: "link/frames.f"}, ""},
		{mutant{File: "rvt/a.go", Function: "rvt.g", Old: "1", New: "0", code: "a = 1"}, "any number will do"},
		{mutant{File: "rvt/a.go", Function: "rvt.g", Old: "1", New: "0", code: "b = 1"}, ""},
		{mutant{File: "rvt/a.go", Function: "rvt.g", Old: "1", New: "0", code: "c = 1"}, "any number will do"},
		{mutant{File: "rvt/b.go", Function: "rvt.h"}, "of another system"},
	} {
		got := ""
		if e := exclusionOf(list, &tt.m); e != nil {
			got = e.Reason
		}
		assert.Equal(t, tt.want, got, "%+v", tt.m)
	}
	assert.ErrorContains(t, checkExclusions(list, nil), "no mutant matches rvt.f 1 -> 2")
	for _, bad := range []string{
		"- reason: no code named here\n",
		"- function: f\n  package: p\n  reason: two of them named\n",
		"- package: p\n  change: a -> b\n  reason: a change of what\n",
		"- function: f\n  reason: short\n",
		"- package: p\n  code: a = 1\n  reason: code of which function\n",
		"- function: f\n  why: unknown field in here\n",
	} {
		_, err := parseExclusions([]byte(bad))
		assert.Error(t, err, bad)
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-n", "20", "-seed", "5", "-tests", "-for", "90s"}, os.Stderr)
	require.NoError(t, err)
	assert.Equal(t, 20, o.n)
	assert.Equal(t, uint64(5), o.seed)
	assert.True(t, o.hasTests)
	assert.Equal(t, 90*time.Second, o.budget)
	var stderr strings.Builder
	_, err = parse([]string{"-n", "0"}, &stderr)
	assert.Error(t, err)
	_, err = parse([]string{"rvt"}, &stderr)
	assert.ErrorContains(t, err, "unexpected argument")
	_, err = parse([]string{"-at", "sma/trap.go", "-survivors", "r.jsonl"}, &stderr)
	assert.ErrorContains(t, err, "give one of them")
	_, err = parse([]string{"-case", "sma.*", "-out", "r.jsonl"}, &stderr)
	assert.ErrorContains(t, err, "-out cannot keep")
	assert.Equal(t, exitUsage, run(t.Context(), []string{"-x"}, &stderr, &stderr))
}

// TestList prints a sample of the tree twice.
func TestList(t *testing.T) {
	var a, b strings.Builder
	for _, out := range []*strings.Builder{&a, &b} {
		args := []string{"-list", "-n", "7", "-seed", "9", "-packages", "sma"}
		require.Zero(t, run(t.Context(), args, out, os.Stderr))
	}
	assert.Equal(t, a.String(), b.String())
	assert.Equal(t, 8, strings.Count(a.String(), "\n"))
	assert.Equal(t, exitError, run(t.Context(), []string{"-list", "-packages", "nothing"}, &a, &b))
}

// TestOnly checks the run that confirms a kill.
func TestOnly(t *testing.T) {
	assert.Equal(t, certification{"--link", "direct", "--profile", "sma", "--set", "odd=1", "--case", "sma.end"},
		oddSMA.only("sma.end"))
	assert.Equal(t, byBypass.with("--case", "rc.sum"), byRings.only("rc.sum"))
	assert.Equal(t, "rc.sum", failedCase("quiet\n\nFailures\n\n  rc.sum  adds\n  expected 5\n"))
	assert.Empty(t, failedCase("panic: x\n\ngoroutine 1 [running]:\n"))
}

// TestLinked checks that ddk-validate has all packages that it judges. No run could kill a mutant of another one.
func TestLinked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("entries of exclusions.yaml name packages of Linux")
	}
	root, err := modroot.Find()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/ddk-validate")
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	b, err := c.Output()
	require.NoError(t, err)
	linked := map[string]bool{}
	for name := range strings.FieldsSeq(string(b)) {
		linked[strings.TrimPrefix(name, "ciddk/")] = true
	}
	all, exclusions, err := load(root, defaultFolders())
	require.NoError(t, err)
	for i := range all {
		if m := &all[i]; exclusionOf(exclusions, m) == nil && !isKit(path.Dir(m.File)) && !linked[path.Dir(m.File)] {
			linked[path.Dir(m.File)] = true
			t.Errorf("ddk-validate has no package %s: add it to exclusions.yaml", path.Dir(m.File))
		}
	}
}

// TestAgain checks the run that repeats an uncertain one.
func TestAgain(t *testing.T) {
	output := "\nFailures\n\nrdma.write  writes\n  got  x\n" +
		"  again     ddk-validate run reference --case rdma.write --profile full --link direct --seed 1\n" +
		"rdma.read  reads\n  again     ddk-validate run reference --case rdma.read --profile full\n" +
		"  again     ddk-validate run reference --case rdma.read --profile full\n"
	want := certification{"--link", "network", "--through", "bypass", "--case", "rdma.write,rdma.read", "--workers",
		"1"}
	assert.Equal(t, want, byRings.again(output))
	assert.Equal(t, []string{"run", "reference", "--quiet", "--fail-fast", "--link", "direct", "--case", "a",
		"--workers", "1"}, certify(byDirect.again("again x --case a")))
	assert.Equal(t, byRings, byRings.again("no case is named\nagain and again --case"))
}
