package userqueues_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/templates/rchca/userqueues"
)

var shape = userqueues.Shape{Slots: 3, SGEs: 2, Inline: 40}

// room returns a request that can hold what a slot of shape contains.
func room() *ci.SendWR {
	return &ci.SendWR{SGL: make([]ci.SGE, 0, shape.SGEs), Inline: make([]byte, 0, shape.Inline)}
}

// TestSend encodes and decodes requests in all slots. The index wraps.
func TestSend(t *testing.T) {
	q, ok := userqueues.OpenSend(make([]byte, shape.Size()), shape)
	require.True(t, ok)
	list := []ci.SendWR{
		{ID: 1<<63 + 5, Op: ci.OpWrite, Flags: ci.SendSignaled | ci.SendImmediate, Imm: 0x01020304,
			Remote: ci.Remote{Addr: 1<<62 + 7, RKey: 0x11223344},
			SGL:    []ci.SGE{{Addr: 9, Length: 10, LKey: 11}, {Length: 3}}},
		{ID: 2, Op: ci.OpSend, Inline: []byte("0123456789012345678901234567890123456789")},
		{ID: 3, Op: ci.OpNop},
	}
	const first = ^uint32(0) - 1 // the index wraps after two requests
	for i := range list {
		q.Put(first+uint32(i), &list[i])
	}
	got := room()
	for i := range list {
		require.True(t, q.Get(first+uint32(i), got))
		want := list[i]
		assert.Equal(t, append([]ci.SGE{}, want.SGL...), append([]ci.SGE{}, got.SGL...))
		assert.Equal(t, string(want.Inline), string(got.Inline))
		want.SGL, want.Inline = got.SGL, got.Inline
		assert.Equal(t, want, *got)
	}
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		q.Put(0, &list[0])
		q.Get(0, got)
	}))
}

// TestCompletions encodes and decodes completions.
func TestCompletions(t *testing.T) {
	q, ok := userqueues.OpenCompletions(make([]byte, userqueues.CompletionsSize(2)), 2)
	require.True(t, ok)
	list := []ci.WC{
		{ID: 1 << 63, QPN: 0xabcdef, Length: 1 << 31, Imm: 7, Flags: ci.WCImmediate, Op: ci.WCRecvWrite},
		{ID: 5, QPN: 17, Status: ci.WCFlushErr, Op: ci.WCSend},
	}
	for i := range list {
		q.Put(uint32(i)+4, &list[i])
	}
	for i := range list {
		var got ci.WC
		q.Get(uint32(i)+4, &got)
		assert.Equal(t, list[i], got)
	}
}

// TestShort opens queues in memory that is too short.
func TestShort(t *testing.T) {
	_, ok := userqueues.OpenSend(make([]byte, shape.Size()-1), shape)
	assert.False(t, ok)
	_, ok = userqueues.OpenSend(nil, userqueues.Shape{Slots: 1})
	assert.False(t, ok)
	_, ok = userqueues.OpenSend(make([]byte, 4096), userqueues.Shape{Slots: 0})
	assert.False(t, ok)
	_, ok = userqueues.OpenCompletions(make([]byte, userqueues.CompletionsSize(2)), 3)
	assert.False(t, ok)
	_, ok = userqueues.OpenCompletions(make([]byte, 4096), 0)
	assert.False(t, ok)
}

// TestSleep checks that one post wakes a driver that sleeps.
func TestSleep(t *testing.T) {
	h := userqueues.OpenHeader(make([]byte, userqueues.HeaderSize))
	assert.False(t, h.Awaken())
	h.Sleep()
	assert.True(t, h.Awaken())
	assert.False(t, h.Awaken())
}

// FuzzSend decodes a send queue that a process has overwritten.
func FuzzSend(f *testing.F) {
	f.Add(make([]byte, shape.Size()), uint32(0))
	f.Add([]byte{}, uint32(7))
	f.Fuzz(func(t *testing.T, b []byte, i uint32) {
		q, ok := userqueues.OpenSend(b, shape)
		require.Equal(t, len(b) >= shape.Size(), ok)
		if !ok {
			return
		}
		w := room()
		q.Get(i, w)
		assert.LessOrEqual(t, len(w.SGL), shape.SGEs)
		assert.LessOrEqual(t, len(w.Inline), shape.Inline)
		assert.Equal(t, shape.SGEs, cap(w.SGL), "no allocation")
	})
}
