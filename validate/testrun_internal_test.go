package validate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCasePattern(t *testing.T) {
	for _, x := range []struct {
		run   string
		depth int
		want  string // "": none
	}{
		{"", 1, ""},
		{"TestX", 1, ""},
		{"TestX/", 1, ""},
		{"TestX/rc", 1, "rc"},
		{`^TestX$/^rc\.send$`, 1, `^rc\.send$`},
		{"TestX/(open|query)", 1, "(open|query)"},
		{"TestX/[/|(]/deeper", 1, "[/|(]"},
		{"TestX/card/rc", 2, "rc"},
		{"TestX/card", 2, ""},
		{"TestX/a|TestY/b", 1, ""},
		{"TestX/(", 1, ""},
		{"TestX/a\\", 1, ""},
	} {
		got := casePattern(x.run, x.depth)
		if x.want == "" {
			assert.Nil(t, got, x.run)
			continue
		}
		require.NotNil(t, got, x.run)
		assert.Equal(t, x.want, got.String())
	}
}

// TestFailureLines checks that a failure ends with a command of go test, not of the certifier, and that the command
// selects only the case.
func TestFailureLines(t *testing.T) {
	rep := &Report{Run: RunInfo{Test: "TestMine", Command: []string{"mine.test"}}}
	lines := failureLines(rep, &Result{Case: "a.cq", Section: "IBTA 11.2.1", Log: []string{"evidence"},
		Failures: []Failure{{Rule: "R-1", Expected: "x", Got: "y"}}})
	require.Len(t, lines, 3)
	assert.Contains(t, lines[0], "R-1 (IBTA 11.2.1, ")
	assert.Equal(t, "evidence", lines[1])
	assert.Equal(t, `again: go test -run '^TestMine$/^a\.cq$'`, lines[2])
	re := casePattern(`^TestMine$/^a\.cq$`, 1)
	require.NotNil(t, re)
	assert.True(t, re.MatchString("a.cq"))
	assert.False(t, re.MatchString("a.cq.more"))
	assert.Empty(t, (&Report{}).TestCommand("a.cq"), "a report that was not made by a test")
}
