package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBar(t *testing.T) {
	var out strings.Builder
	width := 0
	b := &bar{out: &out, numTotal: 4, width: func() int { return width }}
	last := func() string {
		s := out.String()
		out.Reset()
		return s
	}
	b.clear()
	assert.Empty(t, last(), "the line is empty")
	b.describe("rc.send")
	assert.Equal(t, "\r["+strings.Repeat(" ", 20)+"] 0/4 rc.send", last())
	b.set(1)
	assert.Equal(t, "\r["+strings.Repeat("█", 5)+strings.Repeat(" ", 15)+"] 1/4 rc.send", last())
	b.set(9)
	assert.Equal(t, "\r["+strings.Repeat("█", 20)+"] 9/4 rc.send", last(), "more than the total")
	width = 30
	b.describe("a.case.with.a.long.name")
	s := strings.TrimSpace(last())
	assert.Len(t, []rune(s), 29, "the last column is free, so that the terminal does not wrap")
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

func TestBarLeft(t *testing.T) {
	var out strings.Builder
	elapsed := time.Duration(0)
	now := func() time.Duration { return elapsed }
	b := &bar{out: &out, numTotal: 100, width: func() int { return 0 }, now: now}
	for _, tt := range []struct {
		done    int
		elapsed time.Duration
		want    string
	}{
		{5, time.Second, "] 5/100 "},
		{20, 10 * time.Second, "] 20/100, 40s left "},
		{50, 100 * time.Second, "] 50/100, 1m40s left "},
		{99, 99 * time.Second, "] 99/100, 1s left "},
		{100, 100 * time.Second, "] 100/100 "},
	} {
		out.Reset()
		elapsed = tt.elapsed
		b.set(tt.done)
		assert.Contains(t, out.String(), tt.want)
	}
}
