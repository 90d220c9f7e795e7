package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
)

// TestRepeat runs the step's function on a module with one test that fails in a way of its own.
func TestRepeat(t *testing.T) {
	const once = `if _, err := os.Stat("was"); err != nil { os.WriteFile("was", nil, 0o600); `
	tests := map[string]struct {
		body, after string // of TestA, and statements after its end
		isOK        bool
		last        string
	}{
		"passes":     {"", "", true, "1 passed, 0 failed, 0 skipped"},
		"fails once": {once + `t.Error("bad") }`, "", true, "0 passed, 0 failed, 0 skipped, 1 flaky"},
		"a subtest, once": {once + `t.Run("x", func(t *testing.T) { t.Error("bad") }) }`, "", true,
			"0 passed, 0 failed, 0 skipped, 1 flaky"},
		"fails each time":   {`t.Error("bad")`, "", false, "0 passed, 2 failed, 0 skipped"},
		"crashes once":      {once + `panic("bad") }`, "", false, "0 passed, 2 failed, 0 skipped"},
		"the package, once": {"", once + `os.Exit(1) }`, false, "1 passed, 2 failed, 0 skipped"},
		"a race, once": {once + `println("WARNING: DATA RACE"); t.Error("bad") }`, "", false,
			"0 passed, 2 failed, 0 skipped"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"go.mod": "module m\n\ngo 1.26\n",
				"a_test.go": fmt.Sprintf("package m\n\nimport (\"os\"; \"testing\")\n\nvar _ = os.Exit\n\n"+
					"func TestA(t *testing.T) { %s }\n\n"+
					"func TestMain(m *testing.M) { code := m.Run(); %s; os.Exit(code) }\n",
					tt.body, tt.after),
			} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			out := new(testenv.Output) // go test's standard error is copied by a goroutine
			r := &runner{out: out, root: dir, results: results{}}
			exit := r.all(t.Context(), []step{{name: "test", limit: 5 * time.Minute,
				run: func(ctx context.Context, r *runner) error { return r.goTest(ctx, nil, "./...") }}})
			assert.Equal(t, tt.isOK, exit == 0, out.String())
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			assert.Equal(t, tt.last, lines[len(lines)-1], out.String())
			assert.Equal(t, strings.HasSuffix(tt.last, "flaky"), strings.Contains(out.String(), "FLAKY m TestA: "))
		})
	}
}

// TestCanRepeat tests which failures are repeated.
func TestCanRepeat(t *testing.T) {
	many := failures{}
	for i := range maxAgain + 1 {
		many.note("m/a", fmt.Sprintf("Test%d", i))
	}
	assert.False(t, many.canRepeat(), "too many")
	few := failures{}
	few.note("m/a", "TestA/sub")
	assert.False(t, few.canRepeat(), "a subtest alone is not counted")
	few.note("m/a", "TestA")
	assert.True(t, few.canRepeat())
	few.seen("m/a", "    fatal error in the text\n")
	assert.True(t, few.canRepeat())
	few.seen("m/b", "fatal error: all goroutines are asleep - deadlock!\n")
	assert.False(t, few.canRepeat(), "a crash")
}
