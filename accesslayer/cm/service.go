package cm

import (
	"context"
	"time"

	"ciddk/ci"
	"ciddk/mad"
)

// A Service is a connection manager (IBTA volume 1, chapter 12). Manager implements it with datagrams to other
// managers. It may have another implementation, such as one that passes the calls to another process: a Service never
// accesses a QP. Conn.QPAttr returns the attributes for each state, and Modify applies them. All methods of the
// interfaces of this package may be called concurrently.
type Service interface {
	// Listen starts to receive requests for service IDs. Status: InvalidParameter (contradictory port filter, Compare
	// longer than the private data), InvalidSetting (another listener has the same service IDs, filters and Compare),
	// InvalidState with ErrClosed.
	Listen(cfg ListenConfig) (Listener, error)

	// Connect requests a connection and waits for the answer. The returned Conn is in StateREPRcvd: move the QP to RTR
	// and RTS, then call Confirm. With cfg.Peer the peer may request the connection at the same time. The CA GUIDs and
	// QPNs determine which end is passive (12.10.4). On the passive end the returned Conn is in StateREQRcvd: call
	// Accept. Errors: *RejectError, if the peer or a manager on the way rejects the request; *UnreachableError, if the
	// network reports that the request did not arrive and no answer came before; ErrTimeout, if no request was
	// answered; for an invalid cfg, status InvalidParameter, InvalidPort, InvalidPKey, InvalidGID, InvalidLID, or
	// Unsupported (an alternate path, and the CA does not migrate paths); RemoteError, if the peer's answer was stale
	// and was rejected; the context's error, after a REJ with reason timeout to the peer; ErrClosed.
	Connect(ctx context.Context, cfg ConnectConfig) (Conn, error)

	// StartConnect sends the request of Connect and returns. done gets the result. See "Event-driven steps" in the
	// package comment.
	StartConnect(ctx context.Context, cfg ConnectConfig, done func(Conn, error)) error

	// Lookup resolves a service ID to a QP for datagrams (SIDR, 12.11).
	// Errors: *LookupError with the peer's status; *UnreachableError; ErrTimeout; the context's.
	Lookup(ctx context.Context, cfg LookupConfig) (*LookupReply, error)

	// StartLookup sends the request of Lookup and returns. done gets the result.
	StartLookup(ctx context.Context, cfg LookupConfig, done func(*LookupReply, error)) error

	// Close rejects requests, disconnects connections without waiting for the peers, and closes all listeners. It is
	// idempotent.
	Close() error
}

// A Listener receives requests for its service IDs. ListenConfig.Backlog limits the requests that wait for Accept.
type Listener interface {
	// Accept waits for a request for a connection. The returned Conn is in StateREQRcvd: call its Request method, then
	// Accept or Reject. While the request waits here, the manager sends an MRA when the peer needs one.
	// Errors: the context's; ErrClosed.
	Accept(ctx context.Context) (Conn, error)

	// StartAccept returns at once. done gets one request, as Accept returns it. Call StartAccept again for the next
	// request. Concurrent calls receive requests in the order of the calls.
	StartAccept(ctx context.Context, done func(Conn, error)) error

	// AcceptLookup waits for a SIDR request (ListenConfig.Datagram).
	// Errors: the context's; ErrClosed.
	AcceptLookup(ctx context.Context) (LookupRequest, error)

	// StartAcceptLookup is StartAccept for SIDR requests.
	StartAcceptLookup(ctx context.Context, done func(LookupRequest, error)) error

	// Close stops listening. Waiting requests are rejected (reason invalid service ID). Accepted requests are not
	// affected. It is idempotent.
	Close() error
}

// A Notifier is a Conn whose events can be received without Next before it is accepted. The Conns of a Manager are
// Notifiers.
type Notifier interface {
	// Notify passes the events of the connection to f, as AcceptConfig.OnEvent does, unless it has an OnEvent already.
	Notify(f func(Conn, Event))
}

// A Conn is one end of a connection, from its REQ to the end of time-wait.
//
//	active    Connect ─ REQ→ ─ ←REP ─ (QP to RTR, RTS) ─ Confirm ─ RTU→
//	passive   Listener.Accept ─ (QP to RTR) ─ Accept ─ REP→ ─ ←RTU ─ (QP to RTS)
//	both      Disconnect ─ DREQ→ ─ ←DREP    or    EventDisconnect ─ AnswerDisconnect ─ DREP→
//
// A call that the current state does not allow returns status InvalidState and names the state.
type Conn interface {
	// ID returns the local communication ID.
	ID() uint32
	// RemoteID returns the peer's communication ID, or 0 if it is not known.
	RemoteID() uint32
	// State returns the current state.
	State() State

	// Request returns a copy of the REQ that was received (passive) or sent (active).
	Request() *Request
	// Reply returns a copy of the REP that was received (active) or sent (passive), or nil if there is none.
	Reply() *mad.REP

	// Accept answers a request with a REP and waits until the connection is established by the RTU or by Established.
	// Post receives and move the QP to RTR before. A DREQ also establishes the connection, since it means that the RTU
	// was lost; EventDisconnect follows. Errors: *RejectError; ErrTimeout, if no REP was answered; the context's, after
	// a REJ to the peer; ErrClosed.
	Accept(ctx context.Context, cfg AcceptConfig) error

	// StartAccept sends the REP of Accept and returns. done gets the result, before cfg.OnEvent gets later events.
	StartAccept(ctx context.Context, cfg AcceptConfig, done func(error)) error

	// Confirm answers the REP with an RTU. Move the QP to RTS before, so that it can answer the peer's first message.
	Confirm(private []byte) error

	// Established establishes the connection of a passive end whose QP has received the peer's first message
	// (ci.EventQPComm) before the RTU (12.9.7.2).
	Established() error

	// Delay answers a REQ, REP or LAP with an MRA: the final answer may take the time t. It may be called repeatedly.
	Delay(t mad.TimeExp, private []byte) error

	// Reject rejects a REQ or REP and ends the Conn. Until the end of time-wait, copies of the message are rejected
	// again.
	Reject(reason mad.RejReason, info, private []byte) error

	// Handoff passes a request that has not been answered to the listener of another service ID, as if it had arrived
	// there. This Conn is closed. The listener's Conn has the same ID.
	// Status: NotFound (no such listener; the request is kept).
	Handoff(service mad.ServiceID) error

	// LoadAlternate proposes an alternate path with a LAP (active end only) and waits for the answer. If it is
	// APRLoaded, load and arm the path in the QP with the attributes from AlternateAttr. Errors: *AlternateError with
	// the peer's status; ErrTimeout (the connection is kept); the context's.
	LoadAlternate(ctx context.Context, cfg AlternateConfig) (*mad.APR, error)

	// StartLoadAlternate sends the LAP of LoadAlternate and returns. done gets the result.
	StartLoadAlternate(ctx context.Context, cfg AlternateConfig, done func(*mad.APR, error)) error

	// AnswerAlternate answers EventAlternate with an APR.
	AnswerAlternate(status mad.APRStatus, info, private []byte) error

	// Disconnect sends a DREQ and waits for the DREP. The Conn is then in StateTimeWait. Disconnect returns the private
	// data of the DREP, or nil if the peer disconnected at the same time. ErrTimeout means that no DREQ was answered;
	// the connection has ended all the same. If the context ends, Disconnect returns its error, and the manager keeps
	// sending the DREQ; EventDisconnected follows.
	Disconnect(ctx context.Context, private []byte) ([]byte, error)

	// StartDisconnect sends the DREQ of Disconnect and returns. done gets the result.
	StartDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error

	// AnswerDisconnect answers EventDisconnect with a DREP. If the consumer does not call it, the manager answers when
	// the peer repeats the DREQ or when the response time has passed.
	AnswerDisconnect(private []byte) error

	// QPAttr returns the attributes that move the QP of this connection to Init, RTR or RTS. The access rights and the
	// queue sizes are the consumer's choice and are not included. Those of a request that was received are known before
	// StartAccept. Status: InvalidState (attributes are not yet known).
	QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error)

	// AlternateAttr returns the attributes that load and arm the alternate path that was last agreed on. Status:
	// InvalidState (there is none).
	AlternateAttr() (ci.QPField, ci.QPAttr, error)

	// Migrated reports to the manager that the QP has migrated to its alternate path (ci.EventQPAPM). That path becomes
	// the primary path, and later messages are sent along it.
	Migrated() error

	// TimeWait returns how long the QP's number must not be reused after the connection has ended (12.9.8.4), for
	// ci.QP.TimeWait. It is twice the packet life time plus the peer's acknowledgement delay, or 0 if the peer has not
	// answered.
	TimeWait() time.Duration

	// Next waits for the next event. Events are kept until Next returns them. A connection has few.
	// Errors: the context's; ErrClosed, if no event is left and the Conn has left time-wait or was closed.
	Next(ctx context.Context) (Event, error)

	// Close ends the connection without waiting: it rejects or disconnects, depending on the state. The manager keeps
	// the communication ID until the end of time-wait. It is idempotent.
	Close() error
}
