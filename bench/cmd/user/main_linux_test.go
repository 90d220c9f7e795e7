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
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	old := "<!-- table by bench/cmd/user -->\nold\n<!-- end of table -->\n"
	require.NoError(t, os.WriteFile(page, []byte(old), 0o600))
	var b strings.Builder
	require.NoError(t, command.Run(1, "user/bandwidth-64KiB", page, &b))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| 64 KiB | WRITE |")
	require.Contains(t, b.String(), "| 64 KiB | WRITE |")
	require.NotContains(t, string(text), "old")
	require.FileExists(t, filepath.Join(dir, "page-user-bandwidth.svg"))
	require.ErrorContains(t, command.Run(1, "nothing", "", &b), "no case matches")
}
