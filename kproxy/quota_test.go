package kproxy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"ciddk/ci"
)

// TestCharges checks that queues of any size are charged for at least their entries, or for more than any quota: no sum
// overflows.
func TestCharges(t *testing.T) {
	const most = math.MaxInt32
	for _, c := range []ci.QPCaps{
		{SendDepth: most, RecvDepth: most, SendSGE: most, RecvSGE: most},
		{SendDepth: most, RecvDepth: most, SendSGE: most, RecvSGE: most, MaxInline: most},
		{SendDepth: most, SendSGE: most},
	} {
		assert.Greater(t, qpCharge(c).queue, int64(1)<<60, "%+v", c)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 1000), rapid.IntRange(0, most))
		c := ci.QPCaps{SendDepth: n.Draw(t, "send"), RecvDepth: n.Draw(t, "recv"), SendSGE: n.Draw(t, "send SGE"),
			RecvSGE: n.Draw(t, "recv SGE"), MaxInline: n.Draw(t, "inline")}
		got := qpCharge(c).queue
		assert.GreaterOrEqual(t, got, int64(c.SendDepth)+int64(c.RecvDepth))
		assert.GreaterOrEqual(t, math.MaxInt64-got, int64(1)<<61, "another one can be added")
	})
}
