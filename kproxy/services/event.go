package services

import (
	"ciddk/accesslayer/cm"
	"ciddk/internal/kproxy/schema"
	"ciddk/internal/kproxy/schema/convert"
)

// isRepeatable reports whether a notice is an event that a peer can repeat at will.
func isRepeatable(x *schema.Notice) bool {
	e := cm.EventType(x.Event)
	return x.Kind == schema.NoticeEvent && (e == cm.EventDelayed || e == cm.EventAlternate)
}

// newEvent returns the notice of an event.
func newEvent(e *cm.Event) *schema.Notice {
	x := &schema.Notice{Kind: schema.NoticeEvent, Event: uint32(e.Type), Private: e.Private,
		Error: convert.ToError(e.Err)}
	if e.LAP != nil {
		x.Message = convert.Message(e.LAP)
	}
	if e.Path != nil {
		x.Path, x.HasPath = convert.ToPath(e.Path), true
	}
	return x
}
