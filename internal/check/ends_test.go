package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEnds(t *testing.T) {
	var e ends
	e.addEnd("certify", strings.Repeat("a line before\n", 100)+"\nFLAKY\n")
	require.True(t, strings.HasPrefix(e[0], "the end of certify:\n    a line before\n"))
	assert.True(t, strings.HasSuffix(e[0], "    a line before\n    FLAKY\n"))
	assert.LessOrEqual(t, len(e[0]), len("the end of certify:\n")+maxEnd)
	text := "=== RUN   TestA\n    a_test.go:3: got 1\n" + strings.Repeat("    more\n", 100) + "--- FAIL: TestA\n"
	e.addStart("m/a TestA", text)
	assert.True(t, strings.HasPrefix(e[1], "m/a TestA:\n    a_test.go:3: got 1\n    more\n"))
	assert.LessOrEqual(t, len(e[1]), len("m/a TestA:\n")+maxEnd)
	e.addStart("m/a TestB", "=== RUN   TestB\n--- FAIL: TestB (0.00s)\n")
	assert.Len(t, e, 2, "a test with nothing but a failed subtest")
	for i := range 5 {
		e.addEnd(fmt.Sprint("step ", i), "bad\n")
	}
	out := new(bytes.Buffer)
	e.report(out)
	assert.Contains(t, out.String(), "the end of step 1:\n    bad\n3 more failures: see above\n")
	assert.NotContains(t, out.String(), "step 2")
}

func TestTail(t *testing.T) {
	var end tail
	for i := range 1000 {
		_, err := fmt.Fprintf(&end, "line %d\n", i)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(end.b), 4*maxEnd)
	assert.True(t, bytes.HasSuffix(end.b, []byte("line 998\nline 999\n")))
}
