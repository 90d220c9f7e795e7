package uverbs

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// TestEventElement checks what an asynchronous event names: the port for events of the device and of a port, else the
// program's handle of the object (enum ib_event_type, and ib_uverbs_event_handler of Linux).
func TestEventElement(t *testing.T) {
	const ofPort = 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<17 | 1<<18
	seen := 0
	for e, n := range eventNumbers {
		want := uint64(0xabcdef0123)
		if ofPort>>n&1 == 1 {
			want = 7
		}
		b := asyncEvent(nil, &schema.Event{Kind: schema.EventAsync, Type: uint32(e), Token: 0xabcdef0123, Port: 7})
		assert.Equal(t, ne.AppendUint32(ne.AppendUint32(ne.AppendUint64(nil, want), n), 0), b, e)
		seen |= 1 << n
	}
	assert.Equal(t, 1<<19-1, seen, "each number once")
	assert.Empty(t, asyncEvent(nil, &schema.Event{Kind: schema.EventCompletion, Type: uint32(ci.EventQPFatal)}))
}
