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
	e.addEnd("certify", strings.Repeat("a line before\n", 100)+"\nlast\n")
	e.addStart("m/a TestA", "=== RUN   TestA\n    a_test.go:3: got 1\n"+strings.Repeat("    more\n", 100)+
		"--- FAIL: TestA\n")
	e.addStart("m/a TestB", "=== RUN   TestB\n--- FAIL: TestB (0.00s)\n")
	require.Len(t, e, 2, "a test with nothing but a failed subtest")
	report := func() []string {
		out := new(bytes.Buffer)
		e.report(out)
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	got := report()
	require.Len(t, got, 2+2*maxEndLines)
	assert.Equal(t, "the end of certify:", got[0])
	assert.Equal(t, "    a line before", got[1])
	assert.Equal(t, []string{"    last", "m/a TestA:", "    a_test.go:3: got 1", "    more"}, got[maxEndLines:][:4])
	for i := range maxEnds {
		e.addStart(fmt.Sprint("m/b Test", i), strings.Repeat("bad\n", 100))
	}
	got = report()
	require.Len(t, got, 1+maxEnds*(1+minEndLines))
	assert.Equal(t, "2 more failures: see above", got[0])
	assert.Equal(t, []string{"    a line before", "    last", "m/a TestA:"}, got[minEndLines:][:3])
	assert.LessOrEqual(t, len(got), 40+2, "it fits on the page of a CI system")
}

func TestTail(t *testing.T) {
	var end tail
	for i := range 1000 {
		_, err := fmt.Fprintf(&end, "line %d\n", i)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(end.b), maxTail)
	assert.True(t, bytes.HasSuffix(end.b, []byte("line 998\nline 999\n")))
}
