package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/bench"
)

// TestMain also runs the other processes, because the program under test starts itself again.
func TestMain(m *testing.M) {
	bench.RunRole()
	m.Run()
}

func TestRun(t *testing.T) {
	if why := bench.MissingPerftest(); why != "" {
		t.Skip(why)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	old := "<!-- table by bench/cmd/verbs -->\nold\n<!-- end of table -->\n"
	require.NoError(t, os.WriteFile(page, []byte(old), 0o600))
	var b strings.Builder
	require.NoError(t, command.Run(1, "verbs/start", page, &b))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| verbs/start | at most 20 ms more |")
	require.Contains(t, b.String(), "| verbs/start | at most 20 ms more |")
	require.NotContains(t, string(text), "old")
	require.ErrorContains(t, command.Run(1, "nothing", "", &b), "no case matches")
}
