package kproxy

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newQueue returns a queue of at most limit events that wait, and the client's end.
func newQueue(t *testing.T, limit int) (*eventQueue, *os.File) {
	q := &eventQueue{max: limit, most: 1 << 20, stats: new(stats), encode: schemaEvent}
	theirs, err := q.open()
	require.NoError(t, err)
	t.Cleanup(func() {
		q.close()
		theirs.Close()
	})
	require.NoError(t, theirs.SetReadDeadline(time.Now().Add(10*time.Second)))
	return q, theirs
}

// next reads an event.
func next(t *testing.T, f *os.File) schema.Event {
	var b [schema.EventSize + 1]byte
	n, err := f.Read(b[:])
	require.NoError(t, err)
	e, err := schema.ParseEvent(b[:n])
	require.NoError(t, err)
	return e
}

// TestOverflow delivers more events than the socket and the queue hold. The client finds the oldest ones in order, and
// then the last of each kind of each object, in the order of these. After that, events are delivered again.
func TestOverflow(t *testing.T) {
	const sent = 3000
	q, theirs := newQueue(t, 5)
	o, quiet := &object{token: 7}, &object{token: 9}
	for i := range uint64(sent) {
		q.event(o, ci.Event{Type: ci.EventPortActive, Port: 1, Vendor: i})
		q.event(o, ci.Event{Type: ci.EventPortDown, Port: 1, Vendor: i})
		if i == sent/2 {
			q.completion(quiet)
			q.event(quiet, ci.Event{Type: ci.EventPortDown, Port: 1})
			q.event(quiet, ci.Event{Type: ci.EventPortDown, Port: 2})
		}
	}
	assert.LessOrEqual(t, q.waiting(), 5+5)
	assert.EqualValues(t, q.waiting(), q.stats.waiting.Load())
	var got []schema.Event
	for len(got) == 0 || got[len(got)-1].Vendor != sent-1 || got[len(got)-1].Type != uint32(ci.EventPortDown) {
		got = append(got, next(t, theirs))
	}
	async := func(token uint64, typ ci.EventType, port uint32, vendor uint64) schema.Event {
		return schema.Event{Token: token, Kind: schema.EventAsync, Type: uint32(typ), Port: port, Vendor: vendor}
	}
	assert.Equal(t, []schema.Event{
		{Token: 9, Kind: schema.EventCompletion},
		async(9, ci.EventPortDown, 1, 0),
		async(9, ci.EventPortDown, 2, 0),
		async(7, ci.EventPortActive, 1, sent-1),
		async(7, ci.EventPortDown, 1, sent-1),
	}, got[len(got)-5:])
	require.Greater(t, len(got), 10+5)
	for i, e := range got[:len(got)-10] {
		require.Equal(t, async(7, []ci.EventType{ci.EventPortActive, ci.EventPortDown}[i%2], 1, uint64(i/2)), e)
	}
	assert.EqualValues(t, 2*sent+3, uint64(len(got))+q.stats.merged.Load(), "delivered and merged")
	assert.EqualValues(t, len(got)-3, q.forget(o, &o.delivered))
	assert.Zero(t, q.stats.waiting.Load())
	q.completion(&object{token: 8})
	assert.Equal(t, schema.Event{Token: 8, Kind: schema.EventCompletion}, next(t, theirs))
}

// TestShared has two queues of one client, which together hold fewer events than each may. Whatever leaves one has room
// in the other.
func TestShared(t *testing.T) {
	one, theirs := newQueue(t, 5)
	two, _ := newQueue(t, 5)
	one.most, two.most, two.stats = 7, 7, one.stats
	o, p := &object{token: 1, async: one}, &object{token: 2, async: two}
	for i := range uint64(3000) {
		one.event(o, ci.Event{Type: ci.EventSQDrained, Vendor: i})
	}
	assert.Equal(t, 5, one.waiting())
	for range 3000 {
		two.event(p, ci.Event{Type: ci.EventSQDrained})
	}
	assert.Equal(t, 2, two.waiting())
	two.event(p, ci.Event{Type: ci.EventLastWQE})
	assert.Equal(t, 3, two.waiting(), "no other event waits that could stand for it")
	for e := next(t, theirs); e.Vendor != 2999; e = next(t, theirs) {
	}
	require.Eventually(t, func() bool { return one.stats.waiting.Load() == 3 }, 10*time.Second, time.Millisecond)
	two.forget(p, &p.delivered)
	assert.Zero(t, one.stats.waiting.Load())
}

// TestForget destroys an object whose events wait. They are not delivered, and those of another object are.
func TestForget(t *testing.T) {
	q, theirs := newQueue(t, 5000)
	gone, stays := &object{token: 1}, &object{token: 2}
	for range 2000 {
		q.event(gone, ci.Event{Type: ci.EventSQDrained})
	}
	q.event(stays, ci.Event{Type: ci.EventSQDrained})
	require.Positive(t, q.waiting())
	delivered := q.forget(gone, &gone.delivered)
	assert.Less(t, delivered, uint64(2000))
	assert.Positive(t, delivered)
	for range delivered {
		require.EqualValues(t, 1, next(t, theirs).Token)
	}
	assert.EqualValues(t, 2, next(t, theirs).Token)
}

// TestClosedByClient closes the client's end. Events are discarded without an error.
func TestClosedByClient(t *testing.T) {
	q, theirs := newQueue(t, 5)
	require.NoError(t, theirs.Close())
	for range 100 {
		q.completion(&object{token: 1})
	}
	assert.Zero(t, q.waiting())
}

// TestForgetUnread destroys an object some of whose events the client has read. Only these count as delivered. The
// others are removed, and those of another object stay in their order.
func TestForgetUnread(t *testing.T) {
	q, theirs := newQueue(t, 5000)
	q.encode = func(b []byte, e *schema.Event) []byte { return hostOrder.AppendUint64(b, e.Token) }
	require.NoError(t, q.keep(theirs))
	read := func() uint64 {
		var b [9]byte
		n, err := theirs.Read(b[:])
		require.NoError(t, err)
		require.Equal(t, 8, n)
		return hostOrder.Uint64(b[:])
	}
	gone, first, second := &object{token: 1}, &object{token: 2}, &object{token: 3}
	q.completion(gone)
	q.completion(first)
	q.completion(gone)
	q.completion(second)
	require.EqualValues(t, 1, read())
	assert.EqualValues(t, 1, q.forget(gone, &gone.completed))
	for range 1500 { // some wait in the queue
		q.completion(gone)
	}
	assert.EqualValues(t, 1, q.forget(gone, &gone.completed))
	q.completion(first)
	assert.EqualValues(t, 2, read())
	assert.EqualValues(t, 3, read())
	assert.EqualValues(t, 2, read())
	assert.EqualValues(t, 2, q.forget(first, &first.completed))
	assert.Zero(t, q.waiting())
}

// TestEventLeftOut delivers an event that the encoder leaves out, and then another one.
func TestEventLeftOut(t *testing.T) {
	q, theirs := newQueue(t, 5)
	q.encode = func(b []byte, e *schema.Event) []byte {
		if e.Kind != schema.EventCompletion {
			return b
		}
		return e.Append(b)
	}
	o := &object{token: 1}
	q.event(o, ci.Event{Type: ci.EventSQDrained})
	q.completion(o)
	assert.Equal(t, schema.EventCompletion, next(t, theirs).Kind)
	assert.Zero(t, o.delivered)
	assert.EqualValues(t, 1, o.completed)
}
