package rdmacm

import "ciddk/accesslayer/cm"

// Event is what happens to an ID without being asked for, and not as the result of a call.
type Event struct {
	Type EventType
	// Private is the private data of the message that came, nil if none did.
	Private []byte
	// Err says why, of EventDisconnected, EventUnreachable, EventRejected and EventGroupError.
	Err error
	// Group is that of EventGroupError.
	Group *Group
	// CM is the proposal, of EventAlternate.
	CM *cm.Event
}

// EventType says what. The names of rdma_cm stand beside.
type EventType uint8

// Events.
const (
	_                  EventType = iota
	EventEstablished             // passive: RTU came, with private data (ESTABLISHED)
	EventDelayed                 // the peer needs more time for its answer
	EventDisconnected            // the connection is over, whoever ended it (DISCONNECTED)
	EventRejected                // REJ came when nobody waited for an answer: the peer does not know the connection any more (REJECTED)
	EventUnreachable             // the peer's manager has stopped answering (UNREACHABLE)
	EventTimeWaitExit            // the QP may be used again (TIMEWAIT_EXIT)
	EventDeviceRemoved           // the HCA has gone, and with it the QP (DEVICE_REMOVAL)
	EventGroupError              // the membership in a multicast group is lost (MULTICAST_ERROR)
	EventAlternate               // the peer proposes an alternate path: load it, then ID.Conn's AnswerAlternate
)

var eventNames = [...]string{"no event", "established", "delayed", "disconnected", "rejected", "unreachable", "time-wait exit", "device removed",
	"group error", "alternate path"}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return "unknown event"
}

// Causes of the end of a connection: see ErrEnded, which each of them is, too.
var (
	ErrPeerDisconnected error = endCause("the peer has disconnected")
	ErrDisconnected     error = endCause("disconnected here")
	ErrDeviceRemoved    error = endCause("the HCA was removed")
	// ErrPeerLost ends a connection with QPConfig.KeepAlive whose peer does not answer. It is a net.Error that is a timeout.
	ErrPeerLost error = timeout{endCause("the peer does not answer keepalive probes")}
	// ErrQPFailed is the end of a connection whose QP went to Error by itself: a work request failed, or a request of the peer was invalid
	// (QPConfig.OnEvent gets the event). ID.Accept returns it when that happened before the connection was established.
	ErrQPFailed error = endCause("the QP failed")
)
