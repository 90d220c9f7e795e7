package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestUnreached prints the lines of the fixture that its program does not execute.
func TestUnreached(t *testing.T) {
	j, all, _ := guardModule(t)
	var out strings.Builder
	require.NoError(t, unreached(t.Context(), j, all, nil, &out))
	lines, summary, found := strings.Cut(out.String(), "\n\n")
	require.True(t, found, out.String())
	assert.Equal(t, 2, strings.Count(lines+"\n", "\n"), lines)
	assert.Contains(t, lines, "in rvt.unreached: func unreached(n int) bool { return n > 3 }")
	assert.Contains(t, lines, "in rvt.pair.sum: p.b--")
	assert.Regexp(t, `(?m)^rvt +\d+ +2$`, summary)
	require.Error(t, unreached(t.Context(), j, all[:1], nil, &out), "one mutant is not worth a binary")
}

func TestOnePerLine(t *testing.T) {
	all := []mutant{
		{File: "b.go", Line: 2, Operator: opDelete, Function: "b.f"},
		{File: "b.go", Line: 2, Operator: opConstant, Function: "b.f"},
		{File: "b.go", Line: 1, Operator: opBranch, Function: "b.f"},
		{File: "a.go", Line: 9, Operator: opStatus, Function: "a.f"},
		{File: "c.go", Line: 1, Operator: opStatus, Function: "c.g"},
	}
	list := onePerLine(all, []exclusion{{File: "c.go", Reason: "test"}})
	assert.Equal(t, []*mutant{&all[3], &all[2], &all[1]}, list)
}
