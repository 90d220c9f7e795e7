package reference

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPatience checks that the engine waits for processes for which that pays, seldom tries it with others, and changes
// its mind.
func TestPatience(t *testing.T) {
	t.Parallel()
	var c patience
	waits := func(n int, paid bool) (waited int) {
		for range n {
			if c.rounds() > 0 {
				waited++
				c.learn(paid)
			}
		}
		return waited
	}
	require.Equal(t, 10, waits(10*trialEvery, false), "one in trialEvery is a trial")
	require.GreaterOrEqual(t, waits(100, true), 100-trialEvery)
	require.Equal(t, 100, waits(100, true))
	require.LessOrEqual(t, waits(100, false), maxCredit+100/trialEvery+1)
	for range 2 * trialEvery { // half of the waits pay, which is enough
		c.learn(true)
		c.learn(false)
	}
	require.Equal(t, 1, waits(1, true))
}

// TestLull checks what counts as a wait that has paid: work that comes before the engine yields for the first time.
func TestLull(t *testing.T) {
	t.Parallel()
	a, b := &patience{credit: 1}, &patience{}
	var l lull
	require.Equal(t, 1, l.add(), "no process has had work")
	require.Equal(t, 2, l.add())
	l.end(a)
	require.Zero(t, l.add())
	l.end(b) // work during the wait
	require.EqualValues(t, 3, a.credit)
	for i := range 5 {
		require.Equal(t, i+1, l.add(), "no wait for a process for which none has paid")
	}
	l.end(a)
	for range patientRounds - 1 {
		require.Zero(t, l.add())
	}
	require.Equal(t, 1, l.add(), "the first yield")
	require.EqualValues(t, 2, a.credit)
	l.end(a) // work after it
	require.EqualValues(t, 2, a.credit)
	l.end(nil)
	require.Equal(t, 1, l.add(), "after other work")
}
