package kproxy

import (
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/ci"
)

// TestQuotaDefaults sets one limit at a time: it stays, and all others have defaults, which are positive.
func TestQuotaDefaults(t *testing.T) {
	defaults := reflect.ValueOf(Quota{}.WithDefaults())
	for i := range defaults.NumField() {
		assert.Positive(t, defaults.Field(i).Int(), defaults.Type().Field(i).Name)
		var q Quota
		reflect.ValueOf(&q).Elem().Field(i).SetInt(1)
		got := reflect.ValueOf(q.WithDefaults())
		for j := range got.NumField() {
			want := defaults.Field(j).Int()
			if i == j {
				want = 1
			}
			assert.Equal(t, want, got.Field(j).Int(), defaults.Type().Field(j).Name)
		}
	}
}

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
		all := charge{queue: one.queue * 5, memory: one.memory * 5, service: one.service * 5,
			mappings: one.mappings * 5}
		require.NoError(t, c.addCharge("verb", all), name)
		used := c.used
		for _, more := range []charge{one, all} {
			err := c.addCharge("verb", more)
			require.Equal(t, ci.Status(ci.InsufficientResources), ci.StatusOf(err), name)
			require.Equal(t, used, c.used, name)
			require.Equal(t, all.share(), c.s.shares.all, name)
		}
		c.dropCharge(one)
		require.NoError(t, c.addCharge("verb", one), name)
		require.Equal(t, used, c.used, name)
		c.dropCharge(all)
		require.Equal(t, usage{}, c.used, name)
		require.Equal(t, share{}, c.s.shares.all, name)
		require.Empty(t, c.s.shares.users, name)
	}
}

// TestShares checks the limits of all clients together, and that a user has half of each, unless it is trusted.
func TestShares(t *testing.T) {
	stranger, other := Peer{UID: os.Getuid() + 1000}, Peer{UID: os.Getuid() + 1001}
	for name, x := range map[string]struct {
		one   charge
		most  int64
		limit string
	}{
		"mappings":    {charge{mappings: 1}, maxMappings(), "vm.max_map_count"},
		"descriptors": {charge{files: 1}, maxFiles(), "RLIMIT_NOFILE"},
		"bytes":       {charge{space: 1}, maxSpace(), "RLIMIT_AS"},
	} {
		s := &Server{}
		half := func(n int64) share { return share{int64(x.one.mappings) * n, int64(x.one.files) * n, x.one.space * n} }
		client := func(p Peer) *Session { return &Session{s: s, peer: p, quota: Quota{Mappings: 10}} }
		require.NoError(t, s.shares.take("verb", stranger, half(x.most/2)), name)
		err := client(stranger).addCharge("verb", x.one)
		require.ErrorIs(t, err, ci.InsufficientResources, name)
		require.ErrorContains(t, err, "the limit of a user", name)
		require.EqualValues(t, 1, s.refused.shares.Load())
		require.NoError(t, client(other).addCharge("verb", x.one), name)
		require.NoError(t, client(stranger).addCharge("verb", charge{}), "an object without any")

		own := Peer{UID: os.Getuid()}
		require.NoError(t, s.shares.take("verb", own, half(x.most-x.most/2-1)), name)
		err = client(own).addCharge("verb", x.one)
		require.ErrorIs(t, err, ci.InsufficientResources, name)
		require.ErrorContains(t, err, x.limit, name)
		s.shares.give(stranger, half(x.most/2))
		s.shares.give(other, x.one.share())
		require.NoError(t, s.shares.take("verb", own, half(x.most/2+1)), "a trusted user has more than half: %s", name)
		s.shares.give(own, half(x.most))
		require.Equal(t, share{}, s.shares.all, name)
		require.Empty(t, s.shares.users, name)
	}
}

// TestQuotaOfQueues checks that the longest queue of each kind that a client sees is within its quota.
func TestQuotaOfQueues(t *testing.T) {
	for _, bytes := range []int64{1, 1 << 10, 37 << 20, 1 << 40} {
		const most = 1 << 20
		q, a := Quota{QueueBytes: bytes}, ci.CAAttr{MaxCQEs: most, MaxWRs: most, MaxSRQWRs: most}
		q.limit(&a)
		qp := qpCharge(ci.QPCaps{SendDepth: a.MaxWRs, RecvDepth: a.MaxWRs, SendSGE: 1, RecvSGE: 1})
		for _, c := range []charge{cqCharge(a.MaxCQEs), qp, srqCharge(ci.SRQAttr{MaxWR: a.MaxSRQWRs, MaxSGE: 1})} {
			assert.LessOrEqual(t, c.queue, bytes/2)
			if bytes < most {
				assert.Greater(t, c.queue, bytes/2-2*(bytesPerWR+bytesPerSGE), "no lower than needed")
			}
		}
		assert.Equal(t, bytes == 1<<40, a.MaxWRs == most)
	}
}
