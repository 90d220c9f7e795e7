package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplace(t *testing.T) {
	page := "# Speed\n" + from + "old\n" + to + "the end\n"
	got, err := replace([]byte(page), []byte("new\n"))
	require.NoError(t, err)
	require.Equal(t, "# Speed\n"+from+"new\n"+to+"the end\n", string(got))

	for _, line := range []string{from, to} {
		_, err := replace([]byte(strings.Replace(page, line, "", 1)), nil)
		require.ErrorContains(t, err, "is missing")
	}
}

func TestRun(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(1, "direct/write*", "", &b))
	require.Contains(t, b.String(), "| direct/write-1MiB | at least 0.7 |")
	require.ErrorContains(t, run(1, "nothing", "", &b), "no case matches")
	require.ErrorContains(t, run(1, "[", "", &b), "-case")
}
