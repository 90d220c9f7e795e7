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

// Path is one way between two ports, seen from here.
type Path struct {
	Port mads.Port
	// AV is the peer's address as seen from the port. Global counts, and is always true on Ethernet. The source GID is that of
	// AV.GRH.SGIDIndex.
	AV   ci.AVAttr
	PKey ci.PKey // must be in the port's table; 0: the default partition, 0xffff
	MTU  ci.MTU  // 0: the port's active MTU
	// LifeTime is how long a packet takes at most, 4.096 us * 2^LifeTime. It and the CA's acknowledgement delay make the QP's timeout
	// (12.7.34). 0: 0, 8 us.
	LifeTime mad.TimeExp
	// RemoteLID is where the peer's manager is, if that is not AV.DLID.
	RemoteLID ci.LID
}

// ListenConfig says which requests a Listener gets. Zero values of Port, GID, LID and PKey stand for any.
type ListenConfig struct {
	Service mad.ServiceID
	Mask    mad.ServiceID // bits of the ID that count; 0: all. mad.PortSpaceMask: all ports of a port space
	Port    mads.Port     // Num 0: every port of the CA
	GID     ci.GID        // to which the request was addressed, as is LID
	LID     ci.LID
	PKey    ci.PKey // without the membership bit
	// Compare, with Offset, is what a request's private data must have there. Of several listeners that fit, the one with the longest
	// Compare gets the request, then the one with the most bits in Mask, then the one with the most filters.
	Offset  int
	Compare []byte
	// Datagram listens for SIDR instead of REQ.
	Datagram bool
	// Backlog bounds the requests that wait for Accept; more are rejected (REJ, no resources). 0: 128.
	Backlog int
}

// QP is what a manager has to know of a QP.
type QP struct {
	Num  ci.QPN
	Type ci.QPType // RC or UC
	SRQ  bool
	// StartPSN is where the peer is to begin to count what it sends here (12.7.31; Linux reads it so): what Modify to RTR has as RQPSN. Of
	// Accept, 0: the one that Conn.QPAttr gave for that.
	StartPSN ci.PSN
}

// ConnectConfig is a request.
type ConnectConfig struct {
	Service   mad.ServiceID
	QP        QP
	Primary   Path
	Alternate *Path // nil: none
	Private   []byte
	// ResponderResources are the READs and atomics that this end answers at a time, InitiatorDepth those it wants to send.
	ResponderResources, InitiatorDepth uint8
	RetryCount                         uint8 // of both QPs, 0 to 7
	RNRRetry                           uint8 // how often the peer's QP tries again when this end has no receive posted, 0 to 6; 7: for ever
	FlowControl                        bool  // end to end: this end's acknowledgements carry credits, which few HCAs do
	// ResponseTime is how long this end takes to answer messages, RemoteResponseTime how long the peer may: 4.096 us * 2^n. 0: 18, 1.1 s.
	ResponseTime, RemoteResponseTime mad.TimeExp
	// MaxRetries is how often messages are sent again; 0: 8. With the default times, Connect gives up after 10 s if nobody answers, and
	// after 14 s on a path with a LifeTime of 16, which is the default of package rdmacm.
	MaxRetries uint8
	// Peer is a peer-to-peer request: both ends ask. It fits a peer's request whose private data has Compare at Offset, and that
	// came along Primary.
	Peer    bool
	Offset  int
	Compare []byte
	// OnEvent, if not nil, gets events instead of Conn.Next: one at a time, in order, on a goroutine of the manager. It may block, and
	// may call anything; it holds up events of this Conn only.
	OnEvent func(Conn, Event)
}

// AcceptConfig is an answer.
type AcceptConfig struct {
	QP      QP
	Private []byte
	// ResponderResources and InitiatorDepth: as in ConnectConfig; both are cut to what the request offers.
	ResponderResources, InitiatorDepth uint8
	RNRRetry                           uint8 // as in ConnectConfig: of the peer's QP
	FlowControl                        bool
	// Failover answers the request's alternate path; it is loaded by QPAttr if accepted.
	Failover mad.Failover
	OnEvent  func(Conn, Event)
}

// AlternateConfig is a proposal.
type AlternateConfig struct {
	Path    Path
	Private []byte
}

// Request is a REQ with where it came from.
type Request struct {
	mad.REQ
	// Primary and Alternate are the paths to the peer, from here; Alternate is nil if there is none. Paths that cannot be used
	// make no Request: the manager rejects them.
	Primary   Path
	Alternate *Path
	From      mads.Address // where the REQ came from; of an active end, where it goes
}

// LookupConfig is a SIDR request.
type LookupConfig struct {
	Service mad.ServiceID
	Path    Path
	Private []byte
	Timeout time.Duration // until it is sent again; 0: 1.1 s and twice the path's LifeTime
	Retries int           // 0: 8
}

// LookupReply is the answer.
type LookupReply struct {
	QPN     ci.QPN
	QKey    ci.QKey
	Private []byte // mad.SIDRREPPrivateLen bytes
	From    mads.Address
}

// LookupRequest is a SIDR request that came. It is answered once; what has not been answered is forgotten when the peer gives up.
type LookupRequest interface {
	Request() *mad.SIDRREQ
	From() mads.Address
	// Path is the way back.
	Path() Path
	// Accept answers with a QP for datagrams.
	Accept(qpn ci.QPN, qkey ci.QKey, private []byte) error
	// Reject refuses.
	Reject(status mad.SIDRStatus, info, private []byte) error
}

// Config tunes a Manager. The zero value is good for use.
type Config struct {
	Clock clock.Clock // nil: that of the access layer
	Rand  *rand.Rand  // seeds communication IDs, transaction IDs and PSNs; nil: from the system's source, so that nobody guesses them

	// MaxPending bounds the requests that came and are not connections yet, those that wait for Accept included; MaxPendingPeer those
	// from one source (mads.Source). A request beyond them displaces one from a source that has left more requests unfinished, or one
	// whose peer has owed the RTU for 200 ms. Otherwise it is rejected (no resources), or in a flood dropped. 0: 4096 and 1024.
	MaxPending, MaxPendingPeer int
	// MaxTimeWait bounds the connections in time-wait: when there are more, the oldest leaves it early. 0: 65536.
	MaxTimeWait int
	// TimeWaitLimit bounds how long a connection stays in time-wait, and Conn.TimeWait, whatever times the peer has asked for. 0: 2 minutes.
	TimeWaitLimit time.Duration
	// MaxReplies bounds the answers a second to messages whose sender is not verified, all together, and MaxRepliesPeer those to one
	// destination: REJ, MRA, DREP, APR and SIDR_REP that need no connection, and copies of REP. Twice as many may go out at once. What is
	// withheld is counted (Counters.Withheld), and goes out when the peer asks again. 0: 4096 and 256.
	MaxReplies, MaxRepliesPeer int
	// MaxResponseTime cuts the times that peers ask for, in REQ, REP, LAP and MRA, so that none keeps a request for hours. 0: 24, 69 s.
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
