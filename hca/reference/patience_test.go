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
