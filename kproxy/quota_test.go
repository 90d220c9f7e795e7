package kproxy

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestQuotaLimits uses up each limit exactly, which succeeds, and one more, which fails and changes nothing. What was
// given back can be used again.
func TestQuotaLimits(t *testing.T) {
	for name, one := range map[string]charge{"queues": {queue: 1}, "memory": {memory: 1}, "services": {service: 1},
		"mappings": {mappings: 1}} {
		c := &Session{s: &Server{}, quota: Quota{QueueBytes: 5, MemoryBytes: 5, ServiceBytes: 5, Mappings: 5}}
		all := charge{one.queue * 5, one.memory * 5, one.service * 5, one.mappings * 5}
		require.NoError(t, c.addCharge("verb", all), name)
		used := c.used
		for _, more := range []charge{one, all} {
			err := c.addCharge("verb", more)
			require.Equal(t, ci.Status(ci.InsufficientResources), ci.StatusOf(err), name)
			require.Equal(t, used, c.used, name)
			require.EqualValues(t, all.mappings, c.s.mappings.Load(), name)
		}
		c.dropCharge(one)
		require.NoError(t, c.addCharge("verb", one), name)
		require.Equal(t, used, c.used, name)
		c.dropCharge(all)
		require.Equal(t, usage{}, c.used, name)
		require.Zero(t, c.s.mappings.Load(), name)
	}
	// The mappings of all clients together have a limit, too.
	c := &Session{s: &Server{}, quota: Quota{Mappings: 5}}
	c.s.mappings.Store(maxMappings() - 1)
	require.NoError(t, c.addCharge("verb", charge{mappings: 1}))
	require.ErrorContains(t, c.addCharge("verb", charge{mappings: 1}), "vm.max_map_count")
	require.Equal(t, maxMappings(), c.s.mappings.Load())
	require.Equal(t, 1, c.used.mappings)
	require.NoError(t, c.addCharge("verb", charge{}), "an object without a mapping")
}
