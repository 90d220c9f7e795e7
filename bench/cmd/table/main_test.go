package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	var b strings.Builder
	require.NoError(t, run(1, "direct/write*", "", &b))
	require.Contains(t, b.String(), "| direct/write-1MiB | at least 0.7 |")
	require.ErrorContains(t, run(1, "nothing", "", &b), "no case matches")
	require.ErrorContains(t, run(1, "[", "", &b), "-case")
}
