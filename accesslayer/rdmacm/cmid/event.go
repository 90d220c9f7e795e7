package cmid

import (
	"ciddk/accesslayer/cm"
)

// Event is the result of a step that was started with a Start method, or a change of an ID that no call requested.
type Event struct {
	Type EventType
	// ID is the ID that the event belongs to. Of EventConnectRequest, it is the new ID of the request.
	ID *ID
	// Listener is the listener that received an EventConnectRequest.
	Listener *Listener
	// Private is the private data of the message that arrived, or nil.
	Private []byte
	// Err is the error of a step that failed, or the cause of EventDisconnected, EventRejected, EventUnreachable,
	// EventDeviceRemoved and EventGroupError.
	Err error
	// Group is the group of EventGroupJoined and EventGroupError.
	Group *Group
	// CM is the proposal of EventAlternate.
	CM *cm.Event
	// User is the value of EventUser.
	User any

	ack *ack // nil: the event needs no acknowledgement
}

// Ack acknowledges an event that came from an EventChannel. Each such event is acknowledged once; further calls do
// nothing. ID.Close waits until all events of the ID that were taken from the channel are acknowledged.
func (e Event) Ack() {
	if e.ack != nil {
		e.ack.acknowledge()
	}
}

// EventType is the kind of an Event.
type EventType uint8

// Event types. The comments name the events of rdma_cm that correspond to them.
const (
	_                    EventType = iota
	EventAddrResolved              // StartResolveAddr has succeeded (ADDR_RESOLVED)
	EventAddrError                 // StartResolveAddr has failed (ADDR_ERROR)
	EventRouteResolved             // StartResolveRoute has succeeded (ROUTE_RESOLVED)
	EventRouteError                // StartResolveRoute has failed (ROUTE_ERROR)
	EventConnectRequest            // a listener has received a request (CONNECT_REQUEST)
	EventConnectResponse           // the peer has accepted; the ID has no QP: call Establish (CONNECT_RESPONSE)
	EventConnectError              // StartConnect or StartAccept has failed at this end (CONNECT_ERROR)
	EventUnreachable               // the peer's connection manager does not reply (UNREACHABLE)
	EventRejected                  // the peer has sent REJ (REJECTED)
	EventEstablished               // StartConnect or StartAccept has succeeded (ESTABLISHED)
	EventDisconnected              // the connection is over, whichever end disconnected (DISCONNECTED)
	EventDeviceRemoved             // the HCA was removed, and with it the QP (DEVICE_REMOVAL)
	EventGroupJoined               // StartJoin has succeeded (MULTICAST_JOIN)
	EventGroupError                // StartJoin has failed, or the membership is lost (MULTICAST_ERROR)
	EventTimeWaitExit              // the QP may be used again (TIMEWAIT_EXIT)
	EventReadyToUse                // passive: RTU has arrived, with private data; after EventEstablished
	EventDelayed                   // the peer needs more time for its reply (MRA)
	EventAlternate                 // the peer proposes an alternate path: load it, then ID.Conn's AnswerAlternate
	EventUser                      // a value of the program, of ID.Post (USER)
)

var eventNames = [...]string{"no event", "address resolved", "address error", "route resolved", "route error",
	"connect request", "connect response", "connect error", "unreachable", "rejected", "established", "disconnected",
	"device removed", "group joined", "group error", "time-wait exit", "ready to use", "delayed", "alternate path",
	"user"}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "unknown event"
}

// isReplaceable reports whether a peer can cause the event any number of times. Of such events only the last one is
// queued.
func (t EventType) isReplaceable() bool { return t == EventDelayed || t == EventAlternate }
