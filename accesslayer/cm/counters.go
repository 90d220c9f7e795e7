package cm

import (
	"sync/atomic"

	"ciddk/mad"
)

// Drop is why a message that came was not answered as its sender hoped.
type Drop uint8

// Drops.
const (
	DropMalformed  Drop = iota // no CM message: length, class, version, method, attribute or a reserved kind
	DropUnknown                // for no connection, or for another peer's
	DropLate                   // the state of its connection has no use for it: a copy, or out of order
	DropMismatch               // a QPN or transaction ID that is not the connection's
	DropUnserved               // REQ or SIDR_REQ that no listener wants: rejected
	DropInvalid                // REQ, REP or SIDR_REQ that asks for what cannot be: rejected
	DropStale                  // REQ or REP of a peer that is connected already, as it seems: rejected
	DropOverload               // REQ or SIDR_REQ beyond the bounds: rejected
	DropUnanswered             // a request that waited until its sender had given up
	drops
)

var dropNames = [drops]string{"malformed", "unknown", "late", "mismatch", "unserved", "invalid", "stale", "overload", "unanswered"}

// String names the reason.
func (d Drop) String() string {
	if d < drops {
		return dropNames[d]
	}
	return "unknown"
}

// Counters are the numbers of a Manager. Messages are counted by attribute (mad.AttrREQ and so on).
type Counters struct {
	Received, Sent map[uint16]uint64
	Resent         uint64 // of Sent, those sent again because no answer came
	Unsent         uint64 // messages for which the port had no room, or was not there any more; timers do what is needed
	Undelivered    uint64 // of Sent, those that ended a Connect or a Lookup because the network reported that they did not arrive
	Withheld       uint64 // answers not sent because of Config.MaxReplies and MaxRepliesPeer
	Established    uint64 // connections
	TimedOut       uint64 // requests, replies, disconnects that got no answer
	Dropped        map[Drop]uint64

	// What there is now: connections of any state, of these the requests from peers that are not established, those in time-wait,
	// and lookups of both sides.
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

// Counters tells what the manager has done.
func (m *Manager) Counters() Counters {
	c := &m.count
	s := Counters{Received: map[uint16]uint64{}, Sent: map[uint16]uint64{}, Dropped: map[Drop]uint64{}, Resent: c.resent.Load(), Unsent: c.unsent.Load(),
		Undelivered: c.undelivered.Load(), Withheld: c.withheld.Load(), Established: c.established.Load(), TimedOut: c.timedOut.Load()}
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
	s.Conns, s.Pending, s.TimeWait, s.Lookups = len(m.conns), len(m.pending), m.timeWait.n, len(m.asking)+len(m.asked)
	return s
}
