package cm

import (
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// A Path is a path between two ports, described from this end.
type Path struct {
	Port mads.Port
	// AV is the peer's address as seen from the port. Global selects a GRH and is always true on Ethernet. The source
	// GID is the one at AV.GRH.SGIDIndex.
	AV ci.AVAttr
	// PKey is a partition from the port's table. 0 stands for the default partition, 0xffff.
	PKey ci.PKey
	MTU  ci.MTU // 0: the port's active MTU
	// LifeTime is the maximum time in which a packet arrives, 4.096 us * 2^LifeTime. With the CA's acknowledgement
	// delay it determines the QP's timeout (12.7.34). The zero value stands for 4.096 us.
	LifeTime mad.TimeExp
	// RemoteLID is the LID of the peer's connection manager. 0: AV.DLID.
	RemoteLID ci.LID
}

// A ListenConfig selects the requests that a Listener receives. Zero values of Port, GID, LID and PKey match any value.
type ListenConfig struct {
	Service mad.ServiceID
	// Mask has the bits of the service ID that are compared. 0: all. mad.PortSpaceMask matches all ports of a port
	// space.
	Mask mad.ServiceID
	Port mads.Port // Num 0: every port of the CA
	GID  ci.GID    // destination of the request
	LID  ci.LID    // destination of the request
	PKey ci.PKey   // without the membership bit
	// Compare is compared with the request's private data at Offset. If several listeners match, the one with the
	// longest Compare receives the request, then the one with the most bits in Mask, then the one with the most
	// filters.
	Offset  int
	Compare []byte
	// Datagram listens for SIDR requests instead of connection requests.
	Datagram bool
	// Backlog is the maximum number of requests that wait for Accept. Further requests are rejected (no resources).
	// 0: 128.
	Backlog int
}

// QP describes a QP to a connection manager.
type QP struct {
	Num  ci.QPN
	Type ci.QPType // RC or UC
	SRQ  bool
	// StartPSN is the PSN of the first packet that the peer sends to this QP (12.7.31, as Linux interprets it). It is
	// the RQPSN in the modification to RTR. In AcceptConfig, 0 stands for the value that Conn.QPAttr returns for RTR.
	StartPSN ci.PSN
}

// A ConnectConfig describes a request for a connection.
type ConnectConfig struct {
	Service   mad.ServiceID
	QP        QP
	Primary   Path
	Alternate *Path // nil: none
	Private   []byte
	// ResponderResources is the number of outstanding READs and atomics that this end accepts from the peer.
	ResponderResources uint8
	// InitiatorDepth is the number of outstanding READs and atomics that this end sends.
	InitiatorDepth uint8
	// RetryCount is the retry count of both QPs, 0 to 7.
	RetryCount uint8
	// RNRRetry is how often the peer's QP repeats a message when this end has no receive posted, 0 to 6. 7: no limit.
	RNRRetry uint8
	// FlowControl announces that this end's acknowledgements carry credits (end-to-end flow control). Few HCAs do that.
	FlowControl bool
	// ResponseTime is the time in which this end answers messages, 4.096 us * 2^n. 0: 18, 1.1 s.
	ResponseTime mad.TimeExp
	// RemoteResponseTime is the time in which the peer must answer messages, 4.096 us * 2^n. 0: 18, 1.1 s.
	RemoteResponseTime mad.TimeExp
	// MaxRetries is how often a message is repeated. 0: 8. With the default times, Connect gives up after 10 s without
	// an answer, and after 14 s on a path with a LifeTime of 16, the default of package rdmacm.
	MaxRetries uint8
	// Peer makes a peer-to-peer request: both ends send a REQ. It matches a request of the peer that has Compare at
	// Offset of its private data and that arrives along Primary.
	Peer    bool
	Offset  int
	Compare []byte
	// OnEvent receives the connection's events, instead of Conn.Next, if it is not nil. It is called on a goroutine of
	// the manager, for one event at a time and in order. It may block, which delays only the events of this Conn. It
	// may call any method.
	OnEvent func(Conn, Event)
}

// An AcceptConfig describes the answer to a request.
type AcceptConfig struct {
	QP      QP
	Private []byte
	// ResponderResources is as in ConnectConfig. It is reduced to the InitiatorDepth of the request.
	ResponderResources uint8
	// InitiatorDepth is as in ConnectConfig. It is reduced to the ResponderResources of the request.
	InitiatorDepth uint8
	// RNRRetry is as in ConnectConfig, for the peer's QP.
	RNRRetry    uint8
	FlowControl bool
	// Failover answers the request's alternate path. QPAttr loads the path if it is accepted.
	Failover mad.Failover
	OnEvent  func(Conn, Event) // as in ConnectConfig
}

// An AlternateConfig describes a proposal for an alternate path.
type AlternateConfig struct {
	Path    Path
	Private []byte
}

// A Request is a REQ with its origin.
type Request struct {
	mad.REQ
	// Primary is the primary path to the peer, as seen from this end. Requests with unusable paths are rejected by the
	// manager and do not become a Request.
	Primary Path
	// Alternate is the alternate path to the peer, or nil if there is none.
	Alternate *Path
	// From is where the REQ came from. For an active end it is where the REQ was sent.
	From mads.Address
}

// A LookupConfig describes a SIDR request.
type LookupConfig struct {
	Service mad.ServiceID
	Path    Path
	Private []byte
	// Timeout is the time after which the request is repeated. 0: 1.1 s and twice the path's LifeTime.
	Timeout time.Duration
	Retries int // 0: 8
}

// A LookupReply is the answer to a SIDR request.
type LookupReply struct {
	QPN     ci.QPN
	QKey    ci.QKey
	Private []byte // mad.SIDRREPPrivateLen bytes
	From    mads.Address
}

// A LookupRequest is a received SIDR request. It is answered once; a second answer fails with InvalidState. A request
// that has not been answered is forgotten when the peer has given up.
type LookupRequest interface {
	// Request returns the SIDR_REQ.
	Request() *mad.SIDRREQ
	// From returns where the SIDR_REQ came from.
	From() mads.Address
	// Path returns the path to the sender.
	Path() Path
	// Accept answers with a QP for datagrams.
	Accept(qpn ci.QPN, qkey ci.QKey, private []byte) error
	// Reject rejects the request.
	Reject(status mad.SIDRStatus, info, private []byte) error
}

// Config holds the settings of a Manager. The zero value is a valid configuration.
type Config struct {
	// Clock is the clock of all timers. nil: the clock of the access layer.
	Clock clock.Clock
	// Rand seeds communication IDs, transaction IDs and PSNs. nil: the system's random source, which makes them
	// unpredictable.
	Rand *rand.Rand

	// MaxPending is the maximum number of received requests that are not established, including those that wait for
	// Accept. A request above the limit displaces one from a source with more unfinished requests, or one whose peer
	// has not answered the REP for 200 ms. Otherwise it is rejected (no resources), or in a flood dropped. 0: 4096.
	MaxPending int
	// MaxPendingPeer is the maximum number of these requests from one source (mads.Source). 0: 1024.
	MaxPendingPeer int
	// MaxTimeWait is the maximum number of connections in time-wait. Above it, the oldest leaves time-wait early.
	// 0: 65536.
	MaxTimeWait int
	// TimeWaitLimit is the maximum duration of time-wait, and of Conn.TimeWait, for any times that the peer requests.
	// 0: 2 minutes.
	TimeWaitLimit time.Duration
	// MaxReplies is the maximum number of answers per second to messages whose sender is not verified: REJ, MRA, DREP,
	// APR and SIDR_REP that need no connection, and copies of REP. Twice as many may be sent at once. Withheld answers
	// are counted (Counters.Withheld) and are sent when the peer repeats its message. 0: 4096.
	MaxReplies int
	// MaxRepliesPeer is the same limit for the answers to one destination. 0: 256.
	MaxRepliesPeer int
	// MaxResponseTime limits the times that peers request in REQ, REP, LAP and MRA, so that no peer can keep a request
	// open for hours. 0: 24, 69 s.
	MaxResponseTime mad.TimeExp
}

const (
	defaultBacklog  = 128
	defaultRetries  = 8
	defaultResponse = 18 // 1.1 s
)

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.MaxPending, 4096)
	def(&c.MaxPendingPeer, 1024)
	def(&c.MaxTimeWait, 65536)
	def(&c.MaxReplies, 4096)
	def(&c.MaxRepliesPeer, 256)
	if c.TimeWaitLimit <= 0 {
		c.TimeWaitLimit = 2 * time.Minute
	}
	if c.MaxResponseTime == 0 {
		c.MaxResponseTime = 24
	}
	c.MaxResponseTime = min(c.MaxResponseTime, mad.MaxTimeExp)
	if c.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:]) // never fails
		c.Rand = rand.New(rand.NewChaCha8(seed))
	}
	return c
}
