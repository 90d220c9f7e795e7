package cm

import (
	"sync/atomic"

	"ciddk/mad"
)

// Drop is the reason why a received message was ignored or rejected by the manager.
type Drop uint8

// Drop reasons.
const (
	// DropMalformed is a datagram that is not a CM message: wrong length, class, version, method or attribute, or a
	// reserved message kind.
	DropMalformed Drop = iota
	// DropUnknown is a message for no connection, or one from another sender than the connection's peer.
	DropUnknown
	// DropLate is a message that the connection's state ignores, such as a copy.
	DropLate
	// DropMismatch is a message whose QPN or transaction ID is not the connection's.
	DropMismatch
	// DropUnserved is a REQ or SIDR_REQ that matches no listener. It is rejected.
	DropUnserved
	// DropInvalid is a REQ, REP or SIDR_REQ with parameters that the CA cannot serve. It is rejected.
	DropInvalid
	// DropStale is a REQ or REP of a peer that is already connected. It is rejected.
	DropStale
	// DropOverload is a REQ or SIDR_REQ above the limits. It is rejected, or in a flood dropped.
	DropOverload
	// DropUnanswered is a request that the consumer did not answer before its sender gave up.
	DropUnanswered
	drops
)

var dropNames = [drops]string{"malformed", "unknown", "late", "mismatch", "unserved", "invalid", "stale", "overload",
	"unanswered"}

// String returns the reason's name.
func (d Drop) String() string {
	if d < drops {
		return dropNames[d]
	}
	return "unknown"
}

// Counters are the counters of a Manager. Messages are counted by attribute, such as mad.AttrREQ.
type Counters struct {
	Received, Sent map[uint16]uint64
	Resent         uint64 // of Sent: retransmissions
	Unsent         uint64 // messages that a port did not take because it was full or removed
	Undelivered    uint64 // Connects and Lookups that ended because the network reported an undelivered message
	Withheld       uint64 // answers not sent because of Config.MaxReplies and MaxRepliesPeer
	Established    uint64 // connections
	TimedOut       uint64 // requests, replies and disconnects without an answer
	Dropped        map[Drop]uint64

	// The current number of connections in any state, of requests from peers that are not established, of connections
	// in time-wait, and of lookups in both directions.
	Conns, Pending, TimeWait, Lookups int
}

const firstAttr, lastAttr = mad.AttrREQ, mad.AttrAPR

type counters struct {
	received, sent                                  [lastAttr - firstAttr + 1]atomic.Uint64
	resent, unsent, withheld, established, timedOut atomic.Uint64
	undelivered                                     atomic.Uint64
	dropped                                         [drops]atomic.Uint64
}

func (c *counters) drop(d Drop) { c.dropped[d].Add(1) }

// Counters returns the current values of the manager's counters.
func (m *Manager) Counters() Counters {
	c := &m.count
	s := Counters{
		Received: map[uint16]uint64{}, Sent: map[uint16]uint64{}, Dropped: map[Drop]uint64{},
		Resent: c.resent.Load(), Unsent: c.unsent.Load(), Undelivered: c.undelivered.Load(),
		Withheld: c.withheld.Load(), Established: c.established.Load(), TimedOut: c.timedOut.Load(),
	}
	for i := range c.received {
		if n := c.received[i].Load(); n > 0 {
			s.Received[firstAttr+uint16(i)] = n
		}
		if n := c.sent[i].Load(); n > 0 {
			s.Sent[firstAttr+uint16(i)] = n
		}
	}
	for d := range c.dropped {
		if n := c.dropped[d].Load(); n > 0 {
			s.Dropped[Drop(d)] = n
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Conns, s.Pending, s.TimeWait = len(m.conns), len(m.pending), m.timeWait.count
	s.Lookups = len(m.lookups) + len(m.lookupRequests)
	return s
}
