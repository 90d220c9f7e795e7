package cm

import (
	"context"
	"time"

	"ciddk/ci"
	"ciddk/mad"
)

// Service is the connection manager (IBTA volume 1, chapter 12). There are two implementations: Manager, which speaks with other managers
// over MAD services, and the one of a client process, which asks the daemon, so that the state of connections outlives a client
// that is killed. A Service never touches a QP: Conn.QPAttr says how to move it, and Modify does so. All methods of all interfaces here may be called
// concurrently.
type Service interface {
	// Listen begins to answer requests for service IDs.
	// Status: InvalidParameter (a port filter that cannot be, Compare longer than the private data), InvalidSetting (another listener has the
	// same IDs, the same filters and the same Compare), InvalidState with ErrClosed.
	Listen(cfg ListenConfig) (Listener, error)

	// Connect asks for a connection, and waits for the answer: the Conn is then in StateREPRcvd, and Confirm is next. In between the consumer
	// moves its QP to RTR and RTS. With cfg.Peer, the peer may ask at the same time, and who is passive is decided by CA GUID and QPN
	// (12.10.4): the Conn may be in StateREQRcvd, and Accept is next.
	// Errors: *RejectError, if the peer or a manager on the way refused; *UnreachableError, if the network reports that the request did not
	// arrive, and no answer came before; ErrTimeout, when nobody answered so often; what is wrong with
	// cfg, status InvalidParameter, InvalidPort, InvalidPKey, InvalidGID, InvalidLID, or Unsupported (an alternate path, and a CA that
	// does not migrate); RemoteError (a peer's answer that was stale, and rejected); the context's: then the peer was told (REJ,
	// reason timeout); ErrClosed.
	Connect(ctx context.Context, cfg ConnectConfig) (Conn, error)

	// StartConnect sends the request of Connect and returns. done is called with the outcome; see "Steps without waiting" in the package comment.
	StartConnect(ctx context.Context, cfg ConnectConfig, done func(Conn, error)) error

	// Lookup resolves a service ID to a QP for datagrams (SIDR, 12.11).
	// Errors: *LookupError with the peer's status; *UnreachableError; ErrTimeout; the context's.
	Lookup(ctx context.Context, cfg LookupConfig) (*LookupReply, error)

	// StartLookup sends the request of Lookup and returns. done is called with the outcome.
	StartLookup(ctx context.Context, cfg LookupConfig, done func(*LookupReply, error)) error

	// Close rejects and disconnects what there is, without waiting for peers, and ends all listeners. It is idempotent.
	Close() error
}

// Listener receives requests for the service IDs that it listens on. Requests that nobody accepts are bounded, see ListenConfig.Backlog.
type Listener interface {
	// Accept waits for a request for a connection, which is then in StateREQRcvd: see Conn.Request, then Accept or Reject it. Where the
	// peer's patience needs it, the manager sends MRA by itself while the request waits here.
	// Errors: the context's; ErrClosed.
	Accept(ctx context.Context) (Conn, error)

	// StartAccept returns at once. done is called with one request, as Accept returns it; start again for the next one. Calls that wait
	// at the same time get requests in the order in which they began.
	StartAccept(ctx context.Context, done func(Conn, error)) error

	// AcceptLookup waits for a request of a listener with ListenConfig.Datagram.
	AcceptLookup(ctx context.Context) (LookupRequest, error)

	// StartAcceptLookup is StartAccept of a listener with ListenConfig.Datagram.
	StartAcceptLookup(ctx context.Context, done func(LookupRequest, error)) error

	// Close ends listening: requests that wait are rejected (reason invalid service ID), those accepted live on. It is idempotent.
	Close() error
}

// Conn is one end of a connection, from its REQ until it has left time-wait.
//
//	active    Connect ─ REQ→ ─ ←REP ─ (QP to RTR, RTS) ─ Confirm ─ RTU→
//	passive   Listener.Accept ─ (QP to RTR) ─ Accept ─ REP→ ─ ←RTU ─ (QP to RTS)
//	both      Disconnect ─ DREQ→ ─ ←DREP    or    EventDisconnect ─ AnswerDisconnect ─ DREP→
//
// Calls in a state that does not allow them have status InvalidState and name the state.
type Conn interface {
	// ID is the local communication ID, RemoteID the peer's, 0 as long as it is not known.
	ID() uint32
	RemoteID() uint32
	State() State

	// Request is what came (passive) or was sent (active); Reply is the peer's REP (active) or what was sent (passive), nil before.
	// They are copies.
	Request() *Request
	Reply() *mad.REP

	// Accept answers a request with REP, and waits until the connection is established: by RTU, or by Established. The consumer has
	// its receives posted and its QP in RTR before. A DREQ establishes, too: it means that the RTU was lost. EventDisconnect is next then.
	// Errors: *RejectError; ErrTimeout, when neither came for so many REPs; the context's: the peer was told (REJ); ErrClosed.
	Accept(ctx context.Context, cfg AcceptConfig) error

	// StartAccept sends the REP of Accept and returns. done is called with the outcome, before cfg.OnEvent gets later events.
	StartAccept(ctx context.Context, cfg AcceptConfig, done func(error)) error

	// Confirm answers the REP with RTU. The QP is in RTS before, so that the peer's first message is answered.
	Confirm(private []byte) error

	// Established tells a passive end that the peer's first message has come on the QP (ci.EventQPComm) when the RTU has not: 12.9.7.2.
	Established() error

	// Delay answers REQ, REP or LAP with MRA: the real answer may take the time for which t stands. It may be repeated.
	Delay(t mad.TimeExp, private []byte) error

	// Reject refuses a REQ or REP, and ends the Conn. A peer that asks again is told again until time-wait is over.
	Reject(reason mad.RejReason, info, private []byte) error

	// Handoff gives a request that has not been answered to the listener of another service ID, as if it had come there. This Conn is closed;
	// the one that goes there has its ID.
	// Status: NotFound (no such listener: the request stays).
	Handoff(service mad.ServiceID) error

	// LoadAlternate proposes an alternate path (LAP, active end only), and waits for the answer. When it is APRLoaded, the consumer loads the
	// path into the QP: AlternateAttr, and arms it.
	// Errors: *AlternateError with the peer's status; ErrTimeout (the connection stays); the context's.
	LoadAlternate(ctx context.Context, cfg AlternateConfig) (*mad.APR, error)

	// StartLoadAlternate sends the LAP of LoadAlternate and returns. done is called with the outcome.
	StartLoadAlternate(ctx context.Context, cfg AlternateConfig, done func(*mad.APR, error)) error

	// AnswerAlternate answers EventAlternate with APR.
	AnswerAlternate(status mad.APRStatus, info, private []byte) error

	// Disconnect sends DREQ, and waits for DREP; the Conn is then in StateTimeWait. It returns the private data of the DREP, nil if the peer
	// asked at the same time. Without a DREP after all retries the connection is as well gone: ErrTimeout. When the context ends, its
	// error is returned, and the manager goes on asking: EventDisconnected comes.
	Disconnect(ctx context.Context, private []byte) ([]byte, error)

	// StartDisconnect sends the DREQ of Disconnect and returns. done is called with the outcome.
	StartDisconnect(ctx context.Context, private []byte, done func([]byte, error)) error

	// AnswerDisconnect answers EventDisconnect with DREP. If the consumer does not, the manager does when the peer asks again, or its
	// time to answer is over.
	AnswerDisconnect(private []byte) error

	// QPAttr says how to move the QP for this connection to a state: Init, RTR, RTS. Of what the consumer chooses only Access and the queue
	// sizes are missing. Status: InvalidState (not known yet).
	QPAttr(to ci.QPState) (ci.QPField, ci.QPAttr, error)

	// AlternateAttr says how to load the last alternate path agreed on and to arm it. Status: InvalidState (none was).
	AlternateAttr() (ci.QPField, ci.QPAttr, error)

	// Migrated tells that the QP has moved to its alternate path (ci.EventQPAPM): messages go there from now on, and the path is the
	// primary one.
	Migrated() error

	// TimeWait is how long the QP's number has to rest when the connection ends (12.9.8.4), for ci.QP.TimeWait: twice the packet life
	// time, and the peer's acknowledgement delay. 0 as long as the peer has not answered.
	TimeWait() time.Duration

	// Next waits for the next event. Events that nobody takes are kept; there are few in a connection's life.
	// Errors: the context's; ErrClosed when the Conn has left time-wait or was closed, and all events were taken.
	Next(ctx context.Context) (Event, error)

	// Close ends the connection, whatever state it is in, without waiting: it rejects, or disconnects, as the state asks for. The manager
	// keeps the ID until time-wait is over. It is idempotent.
	Close() error
}
