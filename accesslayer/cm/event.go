package cm

import (
	"errors"
	"fmt"
	"net/netip"

	"ciddk/ci"
	"ciddk/mad"
)

// Event is what happens to a connection after Connect or Accept has returned.
type Event struct {
	Type EventType
	// Private is the private data of the message that came, nil if none did.
	Private []byte
	// LAP is the peer's proposal, of EventAlternate; Path is the proposed path as seen from here.
	LAP  *mad.LAP
	Path *Path
	// Err says why, of EventUnreachable and EventRejected.
	Err error
}

// EventType says what.
type EventType uint8

// Events.
const (
	_                 EventType = iota
	EventEstablished            // passive: RTU came, here is its private data; Accept has ended with it, or has before by Established
	EventDelayed                // MRA came: the peer needs more time
	EventDisconnect             // DREQ came: AnswerDisconnect. The QP goes to Error
	EventDisconnected           // the connection is over, DREP was sent, came or will not (Err): the Conn is in time-wait
	EventAlternate              // LAP came: AnswerAlternate
	EventRejected               // REJ came while no call waited: of an established connection, the peer does not know it any more. It is over
	EventUnreachable            // a peer that asked or answered before does not any more, before the connection was established. It is over
	EventTimeWaitExit           // time-wait is over, the QP may be used again. It is the last
)

var eventNames = [...]string{"no event", "established", "delayed", "disconnect", "disconnected", "alternate path", "rejected", "unreachable",
	"time-wait exit"}

func (t EventType) String() string {
	if int(t) < len(eventNames) {
		return eventNames[t]
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// State is where a connection is (12.9.7).
type State uint8

// States. Of LAP, which happens within StateEstablished, nothing shows here.
const (
	StateIdle State = iota
	StateREQSent
	StateREPWait // MRA came for the REQ
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

var stateNames = [states]string{"Idle", "REQSent", "REPWait", "REQRcvd", "MRAREQSent", "REPSent", "MRAREPRcvd", "REPRcvd", "MRAREPSent",
	"Established", "DREQSent", "DREQRcvd", "TimeWait", "Closed"}

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

// UnreachableError is a report of the network, such as an ICMP error, that a request did not reach its destination. Errors.Is finds the
// cause: syscall.ECONNREFUSED (there is a machine, and no process receives RDMA packets there), EHOSTUNREACH or ENETUNREACH.
type UnreachableError struct {
	To    ci.GID
	Cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cm: the request did not reach %v: %v", netip.AddrFrom16(e.To).Unmap(), e.Cause)
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// RejectError is a REJ that came.
type RejectError struct {
	Reason  mad.RejReason
	Message mad.CMWhich // which of our messages was refused
	Info    []byte      // additional reject information, for some reasons what would have been accepted (12.6.7.2)
	Private []byte      // mad.REJPrivateLen bytes
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("cm: rejected by the peer: %v", e.Reason)
}

// AlternateError is an APR that is not APRLoaded.
type AlternateError struct{ APR mad.APR }

func (e *AlternateError) Error() string {
	return fmt.Sprintf("cm: the peer does not take the alternate path: %v", e.APR.Status)
}

// LookupError is a SIDR_REP that does not name a QP.
type LookupError struct {
	Status  mad.SIDRStatus
	Info    []byte
	Private []byte
}

func (e *LookupError) Error() string {
	return fmt.Sprintf("cm: the peer does not resolve the service: %v", e.Status)
}
