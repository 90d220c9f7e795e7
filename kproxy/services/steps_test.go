package services

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer/cm"
	"ciddk/internal/kproxy/schema"
)

// TestRepeatedEvents adds the events that a peer can repeat at will, one after the other and in turn. The latest of
// each type remains, behind what came before it, and nothing else is lost.
func TestRepeatedEvents(t *testing.T) {
	event := func(typ cm.EventType, private byte) *schema.Notice {
		return &schema.Notice{Kind: schema.NoticeEvent, Event: uint32(typ), Private: []byte{private}}
	}
	var n notices
	first := event(cm.EventDisconnected, 0)
	outcome := &schema.Notice{Kind: schema.NoticeOutcome, Event: uint32(cm.EventDelayed)}
	n.add(first)
	n.add(outcome)
	for i := range byte(100) {
		n.add(event(cm.EventDelayed, i))
		n.add(event(cm.EventAlternate, i))
	}
	want := []*schema.Notice{first, outcome, event(cm.EventDelayed, 99), event(cm.EventAlternate, 99)}
	assert.Equal(t, want, n.list)
}
