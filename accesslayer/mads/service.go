package mads

import (
	"context"
	"time"

	"ciddk/ci"
	"ciddk/mad"
)

// Service provides MAD services on the ports of an access layer's HCAs. Manager implements it and owns QP0 and QP1. The
// interface may have another implementation, such as one that passes the calls to another process. All methods may be
// called concurrently.
type Service interface {
	// Ports returns the ports that have services now, in order of the registration of their HCAs, then by number.
	Ports() []Port

	// Watch calls f for each port that has services, before Watch returns, and then for each port that is added or
	// removed. It makes one call at a time, in order. The agents of a removed port are closed before the call. f must
	// not call Watch and stop. stop waits for a running call, and is idempotent.
	Watch(f func(p Port, there bool)) (stop func())

	// Register creates an agent. Status: InvalidParameter (class, version, methods and RMPP that contradict each other,
	// see AgentConfig), InvalidPort (the port does not exist, or has no services now), Unsupported (QP0 of an Ethernet
	// port), ResourceBusy (another agent has one of the methods, or all eight OUIs of a class are in use), InvalidState
	// with ErrClosed (the service is closed).
	Register(cfg AgentConfig) (Agent, error)
}

// Port identifies a port of an HCA.
type Port struct {
	CA  ci.GUID
	Num uint8 // counted from 1
}

// AgentConfig describes an agent and the unsolicited datagrams that it receives. Responses to its own requests are
// always delivered to it.
type AgentConfig struct {
	Name string // for logs and errors
	Port Port
	// SubnetManagement is true for an agent on QP0, of ClassSubnetLID or ClassSubnetDirected. All other agents are on
	// QP1.
	SubnetManagement bool
	Class            mad.Class // 0, if Methods is empty: the agent sends datagrams of any class
	Version          uint8     // of the class; unsolicited datagrams of other versions are not delivered
	OUI              [3]byte   // of vendor range 2, where it must not be zero; otherwise zero
	// Methods are the methods of the requests that the agent receives. No two agents of a port have the same class,
	// version, OUI and method. Empty: the agent receives only responses.
	Methods []mad.Method
	// RMPP splits and reassembles long messages, in classes that have RMPP (IBTA 13.6): SubnetAdmin, Device,
	// DeviceAdmin, BIS, vendor range 2.
	RMPP bool
	// Manager is true for a subnet manager that leaves the subnet management of its own port to the adapter: of Get and
	// Set requests, the agent receives those of SMInfo only. Clients of a daemon cannot have such agents.
	Manager bool
	// Queue bounds the datagrams that wait for Recv. When it is full, datagrams are dropped and counted. 0: 128.
	Queue int
	// OnReceive, if not nil, is called with unsolicited datagrams, which Recv then does not return. Calls are made one
	// at a time, in order of arrival, on the goroutine that serves all agents of the QP. OnReceive must not block. It
	// may call Send, StartDo, Register and Ports, but not Do, Close and Watch.
	OnReceive func(*Received)
	// OnUndelivered, if not nil, is called with datagrams of the agent's class that the network reports as not
	// delivered, if the HCA has such reports (ci.UndeliveredReporter). Reports can be forged. OnUndelivered must not
	// block, like OnReceive.
	OnUndelivered func(*Undelivered)
}

// Undelivered is a report of the network about a datagram that was sent.
type Undelivered struct {
	To ci.GID
	// MAD is the beginning of the datagram, as far as the report contains it: at least the header of a MAD. It is valid
	// during the call.
	MAD []byte
	// Err is the cause; see ci.Undelivered.
	Err error
}

// Agent sends datagrams, matches responses with requests, and receives unsolicited datagrams. All methods may be called
// concurrently.
type Agent interface {
	// Port returns the port of the agent.
	Port() Port

	// Send queues a datagram to which no response is expected, such as a CM message, a response or a trap. It does not
	// block. It sends the transaction ID of the datagram unchanged. Status: InvalidParameter (a length; a message of
	// several segments from an agent without RMPP; an address, as ci.PD.CreateAV), InsufficientResources (the port's
	// queue is full), InvalidState with ErrClosed.
	Send(m *Message) error

	// Do sends a request, repeats it as m specifies, and returns the response. On the wire, each request has a
	// transaction ID of the agent's; the response has the caller's. A response with an error status is a response. The
	// caller may use m again when Do has returned.
	//
	// Errors: status Timeout (no response); the error of ctx; ErrClosed; ErrorStatus, with the ci.WCStatus of a failed
	// send or an *RMPPError; before anything is sent, the errors of Send, and InvalidParameter for a message that is a
	// response.
	Do(ctx context.Context, m *Message) (*Received, error)

	// StartDo sends the request of Do and returns. If it returns an error, the request did not start, and done is not
	// called. Otherwise done is called exactly once, with what Do would return. A request whose ctx ends first ends
	// with the error of ctx.
	//
	// A pending request holds no goroutine, provided that ctx was made by package context. done is called on a
	// goroutine that exists only for the call, with no lock held. It may block, and may call anything. The caller may
	// use m again when StartDo has returned.
	StartDo(ctx context.Context, m *Message, done func(*Received, error)) error

	// Recv waits for an unsolicited datagram. Errors: the error of ctx; ErrClosed, when the queue is empty.
	Recv(ctx context.Context) (*Received, error)

	// Close closes the agent. Pending requests end with ErrClosed. When Close has returned, OnReceive does not run and
	// will not run, so Close must not be called from it, or with a lock held that OnReceive needs. Datagrams that Send
	// has accepted are still sent. Close is idempotent.
	Close() error
}

// Backlog is implemented by agents whose port may have received datagrams that have not been delivered yet. A timer
// that waits for a datagram calls CatchUp before it counts a timeout.
type Backlog interface {
	// CatchUp calls f, as OnReceive is called, when the datagrams that had arrived have been delivered, or a bounded
	// number of them. It does not block. It reports false if the agent is closed; then f is not called. f is not called
	// either if the agent is closed or the port is removed meanwhile. f is delayed while a callback of an agent of the
	// port runs. Therefore a caller must bound its wait.
	CatchUp(f func()) bool
}

// Message is a datagram to send.
type Message struct {
	To Address
	// MAD is the whole datagram, of mad.Size bytes. From agents with RMPP, it may have any length from that of the
	// class's headers (mad.SegmentationOf): the headers, then data. It is sent by RMPP if its length is not mad.Size,
	// or if its RMPP header has the flag Active; the rest of that header is filled in. Send keeps no reference.
	MAD []byte
	// Timeout is how long Do waits for a response before it sends the request again, counted from the time of sending;
	// 0: 1 s. For RMPP it is also the time for an acknowledgment; 0: 2 s.
	Timeout time.Duration
	// Retries is how often Do sends the request again. For RMPP, it is how often Send and Do send again without
	// progress.
	Retries int
	// MaxResponse bounds a response by RMPP, in bytes with the headers of its first segment; 0: Config.MaxMessage. A
	// longer one ends the request with status InsufficientResources.
	MaxResponse int
}

// Address is the destination of a datagram, or the source of one, to which a response can be sent.
type Address struct {
	AV        ci.AVAttr // Port 0: the agent's
	QPN       ci.QPN    // 0 for QP0, 1 for QP1
	QKey      ci.QKey   // 0: the well-known one, if QPN is 1
	PKeyIndex uint16
}

// Received is a datagram that was received.
type Received struct {
	Port Port
	From Address
	// GRH reports whether the datagram had a GRH, as all have on Ethernet. Then SGID is the sender's GID, and DGID the
	// one it was sent to.
	GRH        bool
	SGID, DGID ci.GID
	// MAD is the datagram. For agents with RMPP it is the reassembled message: the headers of its first segment and all
	// data. The receiver may keep and change it.
	MAD []byte
}

// Header returns the common header.
func (r *Received) Header() mad.Header {
	var h mad.Header
	h.Parse(r.MAD[:mad.HeaderLen])
	return h
}
