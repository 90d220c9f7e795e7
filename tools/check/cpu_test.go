package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain lets the go command run its tools through the test's program, as it does through check.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == toolFlag {
		os.Exit(runTool(os.Args[2], os.Args[3:]))
	}
	m.Run()
}

// TestMeasured builds, vets and tests a module with an empty cache, and looks for the time of each tool.
func TestMeasured(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		// The folder's name keeps the build cache from having the package already.
		"a.go": "package main\n\nconst Dir = " + strconv.Quote(dir) + "\n\nfunc main() {}\n",
		"a_test.go": "package main\n\nimport \"testing\"\n\n" +
			"func TestA(t *testing.T) { for n := 0; n < 1e9; n++ { main() } }\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, tt := range []struct {
		args string
		want func(c cpu) bool
	}{
		{"build -o " + os.DevNull, func(c cpu) bool { return c.compile > 0 && c.link > 0 && c.numLinks == 1 }},
		{"vet", func(c cpu) bool { return c.vet > 0 && c.numLinks == 0 }},
		{"test", func(c cpu) bool { return c.test > 0 && c.link > 0 && c.numLinks == 1 }},
		{"list", func(c cpu) bool { return c.test > 0 && c.compile == 0 }},
	} {
		out := new(strings.Builder)
		r := &runner{root: dir, self: self, results: results{}}
		c := r.command(t.Context(), nil, "go", strings.Fields(tt.args)...)
		c.Stdout, c.Stderr = out, out
		require.NoError(t, r.run(c), out.String())
		assert.True(t, tt.want(r.cpu), "%s: %v", tt.args, r.cpu)
	}
	r := &runner{root: dir, self: self}
	c := r.command(t.Context(), nil, "go", "build", "nosuch.go")
	assert.ErrorAs(t, r.run(c), new(*exec.ExitError))
}

func TestCPU(t *testing.T) {
	c := parseTools([]byte("compile 2000000000\nasm 500000000\nlink 3000000000\nlink 1000000000\nvet 1\nnonsense\n"))
	c.test = 5 * time.Second
	assert.Equal(t, cpu{2500 * time.Millisecond, 4 * time.Second, 1, 5 * time.Second, 2}, c)
	assert.Equal(t, "compile 3s, link 2 programs 4s, run 5s", c.String())
	assert.Equal(t, "x                3s    11s CPU (compile 3s, link 2 programs 4s, run 5s)  ok",
		summaryLine("x", 3*time.Second, c, "ok"))
	assert.Equal(t, "x                0s  ok", summaryLine("x", 0, cpu{}, "ok"))
}
