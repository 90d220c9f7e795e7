package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplaceTable(t *testing.T) {
	const from, to = "<!-- table by cmd/x -->\n", "<!-- end of table -->\n"
	const other = "<!-- table by cmd/y -->\nkept\n" + to
	page := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) { require.NoError(t, os.WriteFile(page, []byte(text), 0o600)) }
	write("# Speed\n" + other + from + "old\n" + to + "the end\n")
	require.NoError(t, ReplaceTable(page, "cmd/x", "new\n"))
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "# Speed\n"+other+from+"\nnew\n\n"+to+"the end\n", string(got))

	for _, line := range []string{from, to} {
		write(strings.Replace("# Speed\n"+from+"old\n"+to, line, "", 1))
		require.ErrorContains(t, ReplaceTable(page, "cmd/x", ""), strings.TrimSpace(line)+" is missing")
	}
	require.ErrorIs(t, ReplaceTable(page+"x", "cmd/x", ""), os.ErrNotExist)
}
