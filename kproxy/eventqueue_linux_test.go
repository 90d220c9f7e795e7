package kproxy

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"ciddk/ci"
	"ciddk/kproxy/schema"
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
// then how many were lost. After that, events are delivered again.
func TestOverflow(t *testing.T) {
	const sent = 3000
	q, theirs := newQueue(t, 5)
	o := &object{token: 7, async: q}
	for i := range sent {
		q.event(o, ci.Event{Type: ci.EventSQDrained, Vendor: uint64(i)})
	}
	for i := uint64(0); ; i++ {
		e := next(t, theirs)
		if e.Kind == schema.EventOverflow {
			assert.EqualValues(t, sent, i+e.Vendor, "delivered and lost")
			assert.Equal(t, i, q.stats.events.Load()-1)
			assert.Greater(t, i, uint64(5))
			assert.Equal(t, i, q.forget(o, &o.delivered), "overflow events are not the object's")
			break
		}
		require.Equal(t, schema.Event{Token: 7, Kind: schema.EventAsync, Type: uint32(ci.EventSQDrained), Vendor: i}, e)
	}
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
	for range 3000 {
		one.event(o, ci.Event{Type: ci.EventSQDrained})
	}
	assert.Equal(t, 5, one.waiting())
	for range 3000 {
		two.event(p, ci.Event{Type: ci.EventSQDrained})
	}
	assert.Equal(t, 2, two.waiting())
	for e := next(t, theirs); e.Kind != schema.EventOverflow; e = next(t, theirs) {
	}
	assert.EqualValues(t, 2, one.stats.waiting.Load())
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
