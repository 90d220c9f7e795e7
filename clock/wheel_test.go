package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestWheelModel sets and cancels deadlines at random. Each must fire once, exactly at its time.
func TestWheelModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewVirtual(time.Hour)
		var w Wheel
		w.Init(c)
		const n = 8
		timers := make([]Deadline, n)
		due := make([]time.Duration, n) // 0 if not set
		for i := range timers {
			timers[i].Fire = func() {
				require.NotZero(t, due[i], "timer %d fires unset", i)
				require.Equal(t, due[i], c.Elapsed(), "timer %d", i)
				due[i] = 0
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, n-1).Draw(t, "timer")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				at := c.Elapsed() + time.Duration(rapid.IntRange(1, 100).Draw(t, "in"))
				w.Set(&timers[i], at)
				if due[i] == 0 || at < due[i] { // Set does not move a deadline to a later time
					due[i] = at
				}
			case 2:
				w.Cancel(&timers[i])
				due[i] = 0
			case 3:
				c.Advance(time.Duration(rapid.IntRange(0, 60).Draw(t, "advance")))
				for k, at := range due {
					require.False(t, at != 0 && at <= c.Elapsed(), "timer %d is late", k)
				}
			}
			for k := range timers {
				require.Equal(t, due[k] != 0, timers[k].pos != 0)
			}
		}
		c.Advance(1000)
		require.Equal(t, make([]time.Duration, n), due)
		require.Zero(t, c.Pending(), "a quiet wheel has no timer")
		w.Set(&timers[0], c.Elapsed()+1)
		due[0] = c.Elapsed() + 1
		w.Stop()
		w.Set(&timers[1], c.Elapsed()+1)
		require.Zero(t, c.Pending())
		c.Advance(10)
		require.NotZero(t, due[0], "nothing fires once stopped")
	})
}

// TestWheelFireSets checks that Fire may set the same deadline and others.
func TestWheelFireSets(t *testing.T) {
	c := NewVirtual(time.Hour)
	var w Wheel
	w.Init(c)
	var a, b Deadline
	var log []string
	a.Fire = func() {
		log = append(log, "a")
		if len(log) < 3 {
			w.Set(&a, c.Elapsed()+5)
			w.Set(&b, c.Elapsed()) // expires at once
		}
	}
	b.Fire = func() { log = append(log, "b") }
	w.Set(&a, c.Elapsed()+5)
	c.Advance(100)
	require.Equal(t, []string{"a", "b", "a"}, log)
}
