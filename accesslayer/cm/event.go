package cm

import (
	"errors"
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/mad"
)

// An Event reports a change of a connection that is not the result of a call.
type Event struct {
	Type EventType
	// Private is the private data of the message that caused the event, or nil if there was none.
	Private []byte
	// LAP is the peer's proposal (EventAlternate only).
	LAP *mad.LAP
	// Path is the proposed path as seen from this end (EventAlternate only).
	Path *Path
	// Err is the cause of EventUnreachable and EventRejected, and of an EventDisconnected without a DREP.
	Err error
}

// EventType is the type of an Event.
type EventType uint8

// Event types.
const (
	_ EventType = iota
	// EventEstablished reports the RTU with its private data (passive end). Accept has returned, because of this RTU or
	// because of Established.
	EventEstablished
	// EventDelayed reports an MRA: the peer needs more time.
	EventDelayed
	// EventDisconnect reports a DREQ. Move the QP to Error and call AnswerDisconnect.
	EventDisconnect
	// EventDisconnected reports the end of the connection: a DREP was sent or received, or there will be none (Err).
	// The Conn is in time-wait.
	EventDisconnected
	// EventAlternate reports a LAP. Call AnswerAlternate.
	EventAlternate
	// EventRejected reports a REJ while no call was waiting. The connection has ended. For an established connection it
	// means that the peer has no such connection.
	EventRejected
	// EventUnreachable reports that the peer stopped answering before the connection was established. The connection
	// has ended.
	EventUnreachable
	// EventTimeWaitExit reports the end of time-wait. The QP can be used again. It is the last event.
	EventTimeWaitExit
)

var eventNames = [...]string{"no event", "established", "delayed", "disconnect", "disconnected",
	"alternate path", "rejected",
	"unreachable", "time-wait exit"}

func (e EventType) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return fmt.Sprintf("EventType(%d)", uint8(e))
}

// State is the state of a connection (IBTA volume 1, 12.9.7).
type State uint8

// States of a connection. The exchange of LAP and APR has no states here; it takes place in StateEstablished.
const (
	StateIdle State = iota
	StateREQSent
	StateREPWait // an MRA has arrived for the REQ
	StateREQRcvd
	StateMRAREQSent
	StateREPSent
	StateMRAREPRcvd
	StateREPRcvd
	StateMRAREPSent
	StateEstablished
	StateDREQSent
	StateDREQRcvd
	StateTimeWait
	StateClosed
	states
)

var stateNames = [states]string{"Idle", "REQSent", "REPWait", "REQRcvd", "MRAREQSent", "REPSent",
	"MRAREPRcvd", "REPRcvd",
	"MRAREPSent", "Established", "DREQSent", "DREQRcvd", "TimeWait", "Closed"}

func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Errors of a connection.
var (
	ErrClosed  = errors.New("closed")
	ErrTimeout = errors.New("the peer's connection manager does not answer")
)

// An UnreachableError is a report of the network that a request did not arrive, such as an ICMP error. errors.Is
// matches its cause: syscall.ECONNREFUSED (no process receives RDMA packets at the destination), EHOSTUNREACH or
// ENETUNREACH.
type UnreachableError struct {
	To    ci.GID
	Cause error
}

func (u *UnreachableError) Error() string {
	return fmt.Sprintf("cm: the request did not reach %v: %v", netip.AddrFrom16(u.To).Unmap(), u.Cause)
}

func (u *UnreachableError) Unwrap() error { return u.Cause }

// A RejectError is a REJ from the peer.
type RejectError struct {
	Reason  mad.RejReason
	Message mad.CMWhich // the message of this end that was rejected
	Info    []byte      // additional reject information; for some reasons, an acceptable value (12.6.7.2)
	Private []byte      // mad.REJPrivateLen bytes
}

func (r *RejectError) Error() string {
	return fmt.Sprintf("cm: rejected by the peer: %v", r.Reason)
}

// An AlternateError is an APR with a status other than APRLoaded.
type AlternateError struct{ APR mad.APR }

func (a *AlternateError) Error() string {
	return fmt.Sprintf("cm: alternate path rejected by the peer: %v", a.APR.Status)
}

// A LookupError is a SIDR_REP without a QP.
type LookupError struct {
	Status  mad.SIDRStatus
	Info    []byte
	Private []byte
}

func (l *LookupError) Error() string {
	return fmt.Sprintf("cm: service not resolved by the peer: %v", l.Status)
}
