package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestRepeat runs the step on a module with a package that passes and one that fails every second time. A second run
// has nothing to do; after a change of what one package imports, or of its test data, only its result is void.
func TestRepeat(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		file = filepath.Join(dir, filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	write("low/low.go", "package low\n\nvar X = 1\n")
	write("good/good_test.go", "package good\n\nimport (\n\"testing\"\n\"m/low\"\n)\n\n"+
		"func TestA(t *testing.T) { if low.X == 0 || !testing.Short() { t.Fail() } }\n")
	write("bad/bad_test.go", "package bad\n\nimport (\n\"os\"\n\"testing\"\n)\n\nfunc TestB(t *testing.T) {\n"+
		"if os.Remove(\"seen\") == nil { t.Error(\"second time\") } else { os.WriteFile(\"seen\", nil, 0o600) } }\n")
	o := repetition{runs: 4, busy: 1, file: filepath.Join(dir, "r.tsv"), packages: "./..."}
	once := func() (out string, rows map[string]repeated, err error) {
		w := new(testenv.Output)
		r := &runner{out: w, root: dir, results: results{}}
		err = o.repeat(t.Context(), r)
		b, readErr := os.ReadFile(o.file)
		require.NoError(t, readErr, w.String())
		rows, readErr = parseRepeated(string(b))
		require.NoError(t, readErr)
		return w.String(), rows, err
	}

	out, rows, err := once()
	require.EqualError(t, err, "failed: bad (2 of 4)", out)
	assert.Contains(t, out, "second time")
	require.Len(t, rows, 2)
	assert.Equal(t, [2]int{4, 0}, [2]int{rows["good"].passed, rows["good"].failed})
	assert.Equal(t, [2]int{2, 2}, [2]int{rows["bad"].passed, rows["bad"].failed})

	out, again, err := once()
	require.EqualError(t, err, "failed: bad (2 of 4)")
	assert.Equal(t, rows, again)
	assert.NotContains(t, out, "go test")

	for _, change := range [][2]string{{"low/low.go", "package low\n\nvar X = 2\n"}, {"good/testdata/f", "new"}} {
		write(change[0], change[1])
		out, changed, err := once()
		require.EqualError(t, err, "failed: bad (2 of 4)")
		assert.Equal(t, again["bad"], changed["bad"])
		assert.NotEqual(t, again["good"].sum, changed["good"].sum)
		assert.Equal(t, 1, strings.Count(out, "$ go test"), out)
		again = changed
	}
}

// TestRepeatedFile writes and reads rows.
func TestRepeatedFile(t *testing.T) {
	rows, err := parseRepeated(repeatHead + "\nci\tab\tc0\t3\t1\t1.2s\t8\t9\n")
	require.NoError(t, err)
	want := repeated{pkg: "ci", sum: "ab", commit: "c0", passed: 3, failed: 1, longest: 1200 * time.Millisecond,
		busy: 8, load: 9}
	assert.Equal(t, map[string]repeated{"ci": want}, rows)
	file := filepath.Join(t.TempDir(), "r.tsv")
	require.NoError(t, writeRepeated(file, rows))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, repeatHead+"\n"+want.String()+"\n", string(b))
	for _, bad := range []string{"ci\tab", strings.Replace(want.String(), "1.2s", "soon", 1)} {
		_, err := parseRepeated(repeatHead + "\n" + bad)
		assert.ErrorContains(t, err, "line 2: ")
	}
}
