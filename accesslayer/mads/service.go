package mads

import (
	"context"
	"time"

	"ciddk/ci"
	"ciddk/mad"
)

// Service gives MAD services on the ports of an access layer's HCAs. There are two implementations: Manager, which owns QP0 and QP1, and
// the one of a client process, which asks the daemon. All methods may be called concurrently.
type Service interface {
	// Ports lists the ports that have services now: of each HCA in order of registration, by number.
	Ports() []Port

	// Watch tells of ports: first, before it returns, of those that are there, then of each that comes and goes, one call at a time,
	// in order. A port that goes has its agents closed first. f may call anything but Watch and stop. stop waits for a call that runs, and
	// is idempotent.
	Watch(f func(p Port, there bool)) (stop func())

	// Register makes an agent.
	// Status: InvalidParameter (class, version, methods and RMPP that do not go together, see AgentConfig), InvalidPort (no such port, or
	// not now), Unsupported (QP0 of an Ethernet port), ResourceBusy (another agent has one of the methods, or all eight OUIs of a
	// class are taken), InvalidState with ErrClosed (service closed).
	Register(cfg AgentConfig) (Agent, error)
}

// Port names a port of an HCA.
type Port struct {
	CA  ci.GUID
	Num uint8 // 1-based
}

// AgentConfig describes an agent: which datagrams come to it unasked. Answers to its own requests always do.
type AgentConfig struct {
	Name string // for logs and counters
	Port Port
	// SubnetManagement is an agent on QP0, of classes ClassSubnetLID and ClassSubnetDirected; all others are on QP1.
	SubnetManagement bool
	Class            mad.Class // 0 where Methods are empty: the agent sends datagrams of any class
	Version          uint8     // of the class; unsolicited datagrams of other versions do not come here
	OUI              [3]byte   // of vendor range 2, not zero there; elsewhere zero
	// Methods are the requests that come to this agent. No two agents of a port share a class, a version, an OUI and a method.
	// Empty: nothing comes unasked.
	Methods []mad.Method
	// RMPP takes long messages apart and puts them together, in classes that have it (IBTA 13.6): SubnetAdmin, Device, DeviceAdmin,
	// BIS, vendor range 2.
	RMPP bool
	// Queue bounds the datagrams that wait for Recv; more are dropped and counted. 0: 128.
	Queue int
	// OnReceive, if not nil, gets unsolicited datagrams instead of Recv: one at a time, in order of arrival, on the goroutine that serves
	// all agents of the QP. It may call Send, Register and Ports, must not block, and so may not call Do, Close and Watch.
	OnReceive func(*Received)
	// OnUndelivered, if not nil, is called with datagrams of the agent's class that the network reports as not delivered, where the HCA has
	// such reports (ci.UndeliveredReporter). They can be forged. It must not block, as OnReceive.
	OnUndelivered func(*Undelivered)
}

// Undelivered is a report of the network on a datagram that was sent.
type Undelivered struct {
	To ci.GID
	// MAD is the beginning of the datagram, as far as the report quotes it: at least the header of a MAD. It is valid during the call.
	MAD []byte
	// Err is the cause, see ci.Undelivered.
	Err error
}

// Agent sends, matches answers with requests, and receives what its registration says. All methods may be called concurrently.
type Agent interface {
	// Port is the agent's.
	Port() Port

	// Send queues a datagram to which no answer is expected: a CM message, a response, a trap. It does not block. Its transaction ID
	// goes out as it is.
	// Status: InvalidParameter (a length; a message for several segments from an agent without RMPP; an address, as ci.PD.CreateAV),
	// InsufficientResources (the port's queue is full), InvalidState with ErrClosed.
	Send(m *Message) error

	// Do sends a request and waits for its response, and sends it again as m says. The transaction ID on the wire is one of the
	// agent's, different for each Do; the response has the caller's again. It ends in one of: the response, whatever status it bears; an
	// error with status Timeout, if none came; the context's error; ErrClosed; ErrorStatus around the ci.WCStatus with which the send
	// failed, or around an *RMPPError. The caller may use m again when it has returned.
	// Status, before anything is sent: as Send; InvalidParameter for a response.
	Do(ctx context.Context, m *Message) (*Received, error)

	// StartDo sends the request of Do and returns. An error that it returns is one that Do would return before anything is sent, and done is not
	// called then. Otherwise done is called exactly once, with what Do would return; when ctx ends first, that is the error of ctx. A pending
	// request holds no goroutine, provided that ctx was made by package context. done is called on a goroutine that exists only for the call, with
	// no lock held; it may block, and may call anything. The caller may use m again when StartDo has returned.
	StartDo(ctx context.Context, m *Message, done func(*Received, error)) error

	// Recv waits for an unsolicited datagram. Errors: the context's; ErrClosed, when nothing is left in the queue.
	Recv(ctx context.Context) (*Received, error)

	// Close takes the agent out: pending Dos end with ErrClosed, no OnReceive runs or will run when it returns (so not from there, nor
	// with a lock held that OnReceive wants). What Send has taken still goes out. It is idempotent.
	Close() error
}

// Backlog is implemented by agents whose port may have received datagrams that have not been delivered yet. A timer that waits for a datagram
// uses it before it counts a timeout.
type Backlog interface {
	// CatchUp calls f as OnReceive is called, when the datagrams that had arrived have been delivered, or a bounded number of them. It does not
	// block, and reports false if the agent is closed: then f is not called. f is not called either if the agent is closed or the port goes
	// meanwhile, and waits as long as a callback of an agent of the port does not return; so a caller bounds its waiting.
	CatchUp(f func()) bool
}

// Message is a datagram to send.
type Message struct {
	To Address
	// MAD is the whole datagram, mad.Size bytes. From agents with RMPP it may have any length from the class's headers on
	// (mad.SegmentationOf): the headers, then data. It goes out by RMPP if its length is not mad.Size or its RMPP header has the flag Active;
	// the rest of that header is filled in. Send keeps no reference.
	MAD []byte
	// Timeout is how long Do waits for a response before it sends again, the first time from when the datagram was sent; 0: 1 s. By RMPP
	// it is also how long an acknowledgement may take; 0: 2 s.
	Timeout time.Duration
	// Retries is how often Do sends again before it gives up; by RMPP, Send and Do, how often without progress.
	Retries int
}

// Address is where a datagram goes, or where one came from: then it is the address to answer to.
type Address struct {
	AV        ci.AVAttr // Port may be 0: the agent's
	QPN       ci.QPN    // 0 and 1: QP0 and QP1
	QKey      ci.QKey   // 0: the well-known one, if QPN is 1
	PKeyIndex uint16
}

// Received is a datagram that came.
type Received struct {
	Port Port
	From Address
	// GRH tells whether there was one; on Ethernet there always is. Then SGID is the sender's GID and DGID the one it was sent to.
	GRH        bool
	SGID, DGID ci.GID
	// MAD is the datagram, of agents with RMPP the message put together: the headers of its first segment and all data. It is the
	// receiver's to keep and change.
	MAD []byte
}

// Header reads the common header.
func (r *Received) Header() mad.Header {
	var h mad.Header
	h.Parse(r.MAD[:mad.HeaderLen])
	return h
}
