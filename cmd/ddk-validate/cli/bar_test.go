package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestBar(t *testing.T) {
	var out strings.Builder
	width := 0
	b := &bar{out: &out, total: 4, width: func() int { return width }}
	last := func() string {
		s := out.String()
		out.Reset()
		return s
	}
	b.clear()
	assert.Empty(t, last(), "nothing is shown yet")
	b.describe("rc.send")
	assert.Equal(t, "\r["+strings.Repeat(" ", 20)+"] 0/4 rc.send", last())
	b.set(1)
	assert.Equal(t, "\r["+strings.Repeat("█", 5)+strings.Repeat(" ", 15)+"] 1/4 rc.send", last())
	b.set(9)
	assert.Equal(t, "\r["+strings.Repeat("█", 20)+"] 9/4 rc.send", last(), "more than the total")
	width = 30
	b.describe("a.case.with.a.long.name")
	s := strings.TrimSpace(last())
	assert.Len(t, []rune(s), 29, "the last column stays free, so that the terminal does not wrap")
	assert.True(t, strings.HasSuffix(s, "…"))
	b.clear()
	b.clear()
	assert.Equal(t, "\r"+strings.Repeat(" ", 29)+"\r", last())
	b.clear()
	assert.Empty(t, last())
	width = 0
	b.describe("long")
	last()
	b.describe("")
	assert.True(t, strings.HasSuffix(last(), "] 9/4     "), "the rest of a longer line is overwritten")
	(&bar{out: &out, width: func() int { return 0 }}).set(0)
	assert.Contains(t, last(), "0/0", "no cases at all")
}
