package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	require.NoError(t, command.Run(1, "direct/write*", "", &b))
	require.Contains(t, b.String(), "| direct/write-1MiB | at least 0.7 |")

	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	require.NoError(t, os.WriteFile(page, []byte("<!-- table by bench/cmd/table -->\nold\n<!-- end of table -->\n"),
		0o600))
	require.NoError(t, command.Run(1, "direct/write*", page, &b))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| direct/write-1MiB | at least 0.7 |")
	require.NotContains(t, string(text), "![", "a table of ratios has no chart")
	require.ErrorIs(t, command.Run(1, "direct/write*", page+"x", &b), os.ErrNotExist)

	require.ErrorContains(t, command.Run(1, "nothing", "", &b), "no case matches")
	require.ErrorContains(t, command.Run(1, "[", "", &b), "-case")
}
