package cm

import (
	"slices"
	"sync"
	"time"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/mad"
)

// conn is one end of a connection.
type conn struct {
	m     *Manager
	id    uint32
	timer clock.Deadline // calls expire

	// Guarded by m.mu.
	listener     *listener // that holds the request; nil after Accept
	pending      bool      // in m.pending at pendingIndex, and counted in m.perPeer[from]
	pendingIndex int
	from         mads.Source
	peer         peerID        // key in m.peers
	peerQP       peerQP        // key in m.peerQPs
	inList       bool          // in m.timeWait or m.replied
	repliedAt    time.Duration // time of insertion into m.replied; 0 if it is not there
	displaced    bool          // another request has taken its place; it must end
	prev, next   *conn

	// Set by release, in a connection and the smaller one that replaces it.
	successor *conn
	reqHash   uint64 // hash of the REQ

	mu sync.Mutex
	*exchange
	state          State
	active         bool        // sent the REQ
	rtuReceived    bool        // passive end only
	consumerClosed bool        // no more events
	peerQPKnown    bool        // active end: rep is valid; passive end: always
	accepted       bool        // passive end: rep and qp are what the consumer accepted with
	retryCount     uint8       // how often the current message will still be repeated
	mraTime        mad.TimeExp // service timeout of the last MRA sent
	remoteID       uint32
	port           *port
	to             mads.Address
	tid            uint64 // transaction ID of the REQ and the messages that belong to it
	dreqTID        uint64
	qp             QP
	peerConfig     *ConnectConfig // of a peer-to-peer request; nil for others
	due            time.Duration  // when expire acts; 0: never
	grace          gracePeriod    // of due, while the connection waits for an answer
	sent           []byte         // the message that resend sends
	cause          error          // why the connection ended
	step           *step          // the call that waits for the peer
	loading        *loading       // of an alternate path
	alternate      *route         // last alternate path agreed on
	alternateAck   ci.TimeExp     // its acknowledgement timeout

	notices      []notice
	ready        bell // rings when Next must look again
	onEvent      func(Conn, Event)
	isDelivering bool // a goroutine runs deliver
}

var (
	_ Conn     = (*conn)(nil)
	_ Notifier = (*conn)(nil)
)

func newConn(m *Manager) *conn {
	c := &conn{m: m, exchange: &exchange{}}
	c.timer.Fire = c.expire
	return c
}

// checkCall returns InvalidState if the current state does not allow a call. The caller holds c.mu.
func (c *conn) checkCall(k call) error {
	if slices.Contains(calls[k], c.state) {
		return nil
	}
	return &ci.Error{Verb: "Conn." + callNames[k], Status: ci.InvalidState, Detail: "in state " + c.state.String(),
		Err: c.cause}
}

func (c *conn) detach() { c.listener = nil }

// ID implements Conn.
func (c *conn) ID() uint32 { return c.id }

// RemoteID implements Conn.
func (c *conn) RemoteID() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.remoteID
}

// State implements Conn.
func (c *conn) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.successor != nil {
		return c.successor.State()
	}
	return c.state
}

// Request implements Conn.
func (c *conn) Request() *Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.req
	if r.Alternate != nil {
		a := *r.Alternate
		r.Alternate = &a
	}
	return &r
}

// Reply implements Conn.
func (c *conn) Reply() *mad.REP {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active && !c.peerQPKnown || !c.active && !c.accepted {
		return nil
	}
	r := c.rep
	return &r
}
