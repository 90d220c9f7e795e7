package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/modroot"
	"ciddk/internal/testenv"
)

// writeFiles writes files below a folder.
func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
}

// guardModule writes a module with the fixture and returns a judge of it, and the fixture's mutants.
func guardModule(t *testing.T) (*judge, []mutant, []byte) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", "guard", name))
		require.NoError(t, err)
		return string(b)
	}
	fixture := read("fixture.go.txt")
	root := t.TempDir()
	writeFiles(t, root, map[string]string{
		"go.mod":       "module toy\n\ngo 1.26\n",
		"ci/status.go": "package ci\n\ntype Status int\n\nconst (\n\tOK Status = iota\n\tFull\n)\n",
		"tick/tick.go": "package tick\n\nvar n int\n\nfunc Tick() {\n" +
			"\tif n++; n > 2000 {\n\t\tn = 0\n\t\tpanic(\"endless\")\n\t}\n}\n",
		"rvt/rvt.go":               fixture,
		"rvt/calls.go":             read("calls.go.txt"),
		"cmd/ddk-validate/main.go": "package main\n\nimport \"toy/rvt\"\n\nfunc main() { rvt.Run() }\n",
	})
	all, err := find("rvt/rvt.go", []byte(fixture), []string{"OK", "Full"})
	require.NoError(t, err)
	return newJudge(root, t.TempDir()), all, []byte(fixture)
}

// output runs a program and returns what it prints and how it ends.
func output(t *testing.T, p program, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), p.path, args...)
	c.Env = append(os.Environ(), p.env...)
	b, err := c.CombinedOutput()
	text, _, isCrash := strings.Cut(string(b), "\ngoroutine ") // addresses and lines differ
	if isCrash {
		return text + " crash"
	}
	return fmt.Sprint(text, err)
}

// TestSchema compares each guarded mutant of the fixture with a package that has the same edit in its source.
func TestSchema(t *testing.T) {
	testenv.Long(t)
	j, all, fixture := guardModule(t)
	list := pointers(all)
	s, err := j.newSchema(t.Context(), filepath.Join(j.dir, "schema"), list)
	require.NoError(t, err)
	require.NotNil(t, s)

	operators := map[string]bool{}
	files, imports, clauses := map[string]string{}, "", ""
	calls, err := os.ReadFile(filepath.Join(j.root, "rvt", "calls.go"))
	require.NoError(t, err)
	var broken, alone []string
	for i, m := range list {
		n, isGuarded := s.numbers[m.id()]
		_, isBroken := s.broken[m.id()]
		files[fmt.Sprintf("m%d/rvt.go", i+1)] = string(m.apply(fixture))
		files[fmt.Sprintf("m%d/calls.go", i+1)] = string(calls)
		switch {
		case isGuarded:
			operators[m.Operator] = true
			imports += fmt.Sprintf("\tm%d \"toy/m%d\"\n", n, i+1)
			clauses += fmt.Sprintf("\tcase \"%d\":\n\t\tm%d.Run()\n", n, n)
		case isBroken:
			broken = append(broken, fmt.Sprintf("./m%d", i+1))
		default:
			alone = append(alone, m.Function)
		}
	}
	assert.ElementsMatch(t, []string{opNegate, opOperand, opBoundary, opComparison, opArithmetic, opConstant, opDelete,
		opStatus, opBranch}, slices.Collect(maps.Keys(operators)), "an operator without a guarded mutant")
	assert.Greater(t, len(s.numbers), 90)
	// rescue is only effective if it is deferred itself, the next two run when variables are initialized, and results
	// has the only uses of two packages.
	assert.Subset(t, []string{"rvt.rescue", "rvt.newTable", "rvt.first", "rvt.results"}, alone)
	assert.Subset(t, alone, []string{"rvt.rescue", "rvt.newTable", "rvt.first"})
	assert.NotContains(t, alone, "rvt.isListed", "a variable refers to it and does not call it")

	files["all/main.go"] = "package main\n\nimport (\n\t\"os\"\n\n" + imports +
		")\n\nfunc main() {\n\tswitch os.Args[1] {\n" +
		clauses + "\t}\n}\n"
	writeFiles(t, j.root, files)
	each := filepath.Join(j.dir, "each.exe")
	build(t, j.root, "-o", each, "./all")
	plain, err := j.plain(t.Context())
	require.NoError(t, err)
	original := output(t, plain)
	assert.Contains(t, original, "circuit")
	assert.NotContains(t, original, "panic")
	assert.Equal(t, original, output(t, program{path: s.bin}), "without a selection")
	numDifferent := 0
	for _, m := range list {
		n, ok := s.numbers[m.id()]
		if !ok {
			continue
		}
		want := output(t, program{path: each}, fmt.Sprint(n))
		got := output(t, program{path: s.bin, env: []string{fmt.Sprintf("%s=%d", selectVar, n)}})
		assert.Equal(t, want, got, "%s:%d: %s", m.Function, m.Line, m.change())
		if want != original {
			numDifferent++
		}
	}
	assert.Greater(t, numDifferent, 60)
	require.NotEmpty(t, broken, "the fixture has mutants that do not compile")
	for _, folder := range broken {
		c := exec.CommandContext(t.Context(), "go", "build", folder)
		c.Dir = j.root
		b, err := c.CombinedOutput()
		assert.Error(t, err, "%s compiles", folder)
		assert.Contains(t, string(b), "rvt.go:")
	}
}

func pointers(all []mutant) []*mutant {
	var list []*mutant
	for i := range all {
		list = append(list, &all[i])
	}
	return list
}

// build runs go build in a module.
func build(t *testing.T, root string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", append([]string{"build"}, args...)...)
	c.Dir = root
	b, err := c.CombinedOutput()
	require.NoError(t, err, string(b))
}

// TestSchemaReach records which mutants of the fixture are executed.
func TestSchemaReach(t *testing.T) {
	j, all, _ := guardModule(t)
	s, err := j.newSchema(t.Context(), filepath.Join(j.dir, "schema"), pointers(all))
	require.NoError(t, err)
	r := &reach{j: j, bin: s.bin, dir: j.dir, runs: map[string]*reachRun{}}
	run, err := r.of(t.Context(), byDirect)
	require.NoError(t, err)
	again, err := r.of(t.Context(), byDirect)
	require.NoError(t, err)
	assert.Same(t, run, again)
	for i := range all {
		n, ok := s.numbers[all[i].id()]
		if !ok {
			continue
		}
		c, reaches := run.narrow(byDirect, n)
		isExecuted := all[i].Function != "rvt.unreached" && !strings.HasPrefix(all[i].code, "p.b--")
		assert.Equal(t, isExecuted, reaches, "%s: %s", all[i].Function, all[i].code)
		if reaches {
			assert.Equal(t, byDirect, c, "the program has no cases")
		}
	}
}

// TestPrepare judges mutants of a round, of which one is not executed by any run.
func TestPrepare(t *testing.T) {
	j, all, _ := guardModule(t)
	j.hasReach = true
	require.NoError(t, j.prepare(t.Context(), pointers(all)))
	require.NotNil(t, j.schema)
	require.NotNil(t, j.schema.reach)
	for _, tt := range []struct {
		function string
		verdict  verdict
		detail   string
	}{
		{"rvt.unreached", survived, "no run executes it"},
		{"rvt.ignore", survived, ""}, // the program fails in no case
		{"rvt.rescue", survived, ""}, // built for itself
	} {
		i := slices.IndexFunc(all, func(m mutant) bool { return m.Function == tt.function })
		require.NotEqual(t, -1, i)
		r, err := j.judge(t.Context(), &all[i], nil)
		require.NoError(t, err)
		assert.Equal(t, tt.verdict, r.Verdict, tt.function)
		assert.Equal(t, tt.detail, r.Detail, tt.function)
	}
	for i := range all {
		if _, isBroken := j.schema.broken[all[i].id()]; isBroken {
			r, err := j.judge(t.Context(), &all[i], nil)
			require.NoError(t, err)
			assert.Equal(t, unbuilt, r.Verdict)
			assert.NotEmpty(t, r.Detail)
		}
	}
	require.NoError(t, j.prepare(t.Context(), pointers(all[:minGuarded-1])))
	assert.Nil(t, j.schema, "too few for a binary")
}

// TestSchemaFallback checks that mutants are built one at a time if the tree does not build for another reason.
func TestSchemaFallback(t *testing.T) {
	j, all, _ := guardModule(t)
	var out strings.Builder
	j.out = &out
	writeFiles(t, j.root, map[string]string{"cmd/ddk-validate/main.go": "package main\n\nfunc main() { wrong() }\n"})
	s, err := j.newSchema(t.Context(), filepath.Join(j.dir, "schema"), pointers(all))
	require.NoError(t, err)
	assert.Nil(t, s)
	assert.Contains(t, out.String(), "undefined: wrong")
}

func TestNarrow(t *testing.T) {
	name := filepath.Join(t.TempDir(), "reach")
	require.NoError(t, os.WriteFile(name, []byte("1 rc.a\n2 rc.b\n2 rc.a\n2 rc.a\n3 rc.c\n3 \n4 rc.a\n4 rc.b\n"+
		"4 rc.c\n5 rc.d\n6 \n"), 0o644))
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	var run reachRun
	run.sites, run.cases, err = readReach(f)
	require.NoError(t, err)
	for n, want := range map[int]certification{
		1: byDirect.with("--case", "rc.a"),
		2: byDirect.with("--case", "rc.a,rc.b"), // half of the cases
		3: byDirect,                             // also outside of cases
		4: byDirect,                             // most of the cases
		6: byDirect,
		7: nil,
	} {
		got, reaches := run.narrow(byDirect, n)
		assert.Equal(t, want, got, n)
		assert.Equal(t, want != nil, reaches, n)
	}
	got, _ := run.narrow(oddSMA, 1)
	assert.Equal(t, oddSMA.only("rc.a"), got)

	require.NoError(t, os.WriteFile(name, []byte("x rc.a\n"), 0o644))
	_, err = f.Seek(0, 0)
	require.NoError(t, err)
	_, _, err = readReach(f)
	assert.ErrorContains(t, err, "reach")
}

// TestNamingCases checks that the certifier's source still has the places where a reach run names the case.
func TestNamingCases(t *testing.T) {
	root, err := modroot.Find()
	require.NoError(t, err)
	src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(workerFile)))
	require.NoError(t, err)
	out, err := namingCases(src, "ciddk")
	require.NoError(t, err)
	assert.Contains(t, string(out), "ddkmut.Case(cs.ID)")
	_, err = namingCases([]byte("package validate\n"), "ciddk")
	assert.ErrorContains(t, err, "change namingCases")
}

// TestCompilerLine checks the forms in which the compiler names a file.
func TestCompilerLine(t *testing.T) {
	b := schemaBuild{module: "toy", files: map[string]*guarded{"rvt/a.go": {}, "rvt/b/a.go": {}}}
	for name, want := range map[string]string{
		"rvt/a.go": "rvt/a.go", "./rvt/a.go": "rvt/a.go", "toy/rvt/b/a.go": "rvt/b/a.go",
		"/tmp/x/rvt__a.go": "rvt/a.go", "/tree/rvt/b/a.go": "rvt/b/a.go", "sma/a.go": "", "a.go": "",
	} {
		assert.Equal(t, want, b.fileOf(name), name)
	}
}
