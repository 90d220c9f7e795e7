package uverbs

import (
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// completionEvent is the form of a completion event: the user handle of the CQ.
func completionEvent(b []byte, e *schema.Event) []byte {
	if e.Kind != schema.EventCompletion { // events were lost because the program did not read them
		return b
	}
	return ne.AppendUint64(b, e.Token)
}

// eventNumbers are the numbers of events (enum ib_event_type).
var eventNumbers = map[ci.EventType]uint32{
	ci.EventCQError: 0, ci.EventQPFatal: 1, ci.EventWQReqError: 2, ci.EventWQAccessError: 3, ci.EventQPComm: 4,
	ci.EventSQDrained: 5, ci.EventQPAPM: 6, ci.EventQPAPMError: 7, ci.EventLocalFatal: 8, ci.EventPortActive: 9,
	ci.EventPortDown: 10, ci.EventLIDChange: 11, ci.EventPKeyChange: 12, ci.EventSMChange: 13, ci.EventSRQFatal: 14,
	ci.EventSRQLimit: 15, ci.EventLastWQE: 16, ci.EventReregister: 17, ci.EventGIDChange: 18,
}

// firstPortEvent and lastPortEvent are the numbers of the events that concern a port, except for two.
const (
	numDeviceFatal = 8
	numFirstPort   = 9
	numLastPort    = 13
	numReregister  = 17
	numGIDChange   = 18
)

// asyncEvent is the form of an asynchronous event: the user handle of the object, or the port, and the event's number.
func asyncEvent(b []byte, e *schema.Event) []byte {
	n, ok := eventNumbers[ci.EventType(e.Type)]
	if e.Kind != schema.EventAsync || !ok {
		return b
	}
	element := e.Token
	if n >= numDeviceFatal && n <= numLastPort || n == numReregister || n == numGIDChange {
		element = uint64(e.Port)
	}
	b = ne.AppendUint64(b, element)
	b = ne.AppendUint32(b, n)
	return ne.AppendUint32(b, 0)
}
