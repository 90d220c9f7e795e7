package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVirtual(t *testing.T) {
	c := NewVirtual(time.Hour)
	_, ok := c.Next()
	require.False(t, ok, "no timer is set")
	var log []string
	note := func(s string) func() {
		return func() { log = append(log, s+" "+(c.Elapsed()-time.Hour).String()) }
	}
	c.AfterFunc(3, note("c"))
	b := c.AfterFunc(2, note("b"))
	c.AfterFunc(2, note("b2"))
	c.AfterFunc(1, func() { note("a")(); c.AfterFunc(0, note("at once")) })
	stopped := c.AfterFunc(2, note("never"))
	require.True(t, stopped.Stop())
	require.False(t, stopped.Stop())
	require.Equal(t, 4, c.Pending())
	next, ok := c.Next()
	require.True(t, ok)
	assert.Equal(t, time.Hour+1, next)
	c.Advance(2)
	assert.Equal(t, []string{"a 1ns", "at once 1ns", "b 2ns", "b2 2ns"}, log)
	assert.False(t, b.Reset(5), "it has fired")
	assert.True(t, b.Reset(4), "it was set")
	assert.True(t, c.Step())
	assert.True(t, c.Step())
	assert.False(t, c.Step())
	assert.Equal(t, []string{"c 3ns", "b 6ns"}, log[4:])
	c.Advance(10)
	assert.Equal(t, time.Hour+16, c.Elapsed())
	assert.Zero(t, c.Pending())
}

func TestReal(t *testing.T) {
	c := Real()
	fired := make(chan time.Duration)
	start := c.Elapsed()
	timer := c.AfterFunc(time.Hour, func() { fired <- c.Elapsed() })
	require.True(t, timer.Reset(time.Millisecond))
	assert.GreaterOrEqual(t, <-fired-start, time.Millisecond)
	assert.False(t, timer.Stop())
}
