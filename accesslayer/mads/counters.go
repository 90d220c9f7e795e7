package mads

import "sync/atomic"

// Drop is the reason why a datagram was dropped.
type Drop uint8

const (
	DropLength    Drop = iota // received: its length is not mad.Size
	DropVersion               // received: its base version is not 1
	DropClass                 // received: a class of QP0 on QP1, or the reverse
	DropAddress               // received: no address to reply to: the GRH is missing, or a GID in it is invalid
	DropHops                  // received: a directed route that does not lead to this port
	DropUnmatched             // received: a response without a request of an agent, or an RMPP reply without a transfer
	DropUnclaimed             // received: a request that has no handler and gets no reply
	DropQueue                 // received: the agent's queue was full
	DropBusy                  // received: too many requests wait for the port's own agent
	DropRMPP                  // received: an RMPP packet that violates the protocol, or an incomplete transfer
	DropResources             // received: an RMPP transfer beyond the limits
	DropReceive               // received: the HCA reported an error
	DropSendQueue             // not sent: a reply of the service itself, because the send queue was full
	DropTransfer              // not sent: a long message that the peer refused or did not acknowledge
	DropSend                  // not sent: the HCA reported an error
	DropClosed                // not sent: the port was removed
	DropReply                 // not sent: an error status or an abort beyond Config.MaxReplies or MaxRepliesPeer
	DropConsumed              // received: an SMP that the adapter has answered itself, and that no agent observes
	drops
)

// String returns the name of the reason.
func (d Drop) String() string {
	names := [drops]string{"length", "version", "class", "address", "hops", "unmatched", "unclaimed", "queue", "busy",
		"RMPP", "resources",
		"receive error", "send queue", "transfer", "send error", "closed", "reply", "consumed"}
	if d < drops {
		return names[d]
	}
	return "unknown"
}

// Counters holds the counters of one port since its services began.
type Counters struct {
	Sent, Received    uint64 // datagrams on the wire
	Retried, TimedOut uint64 // requests sent again; requests that got no response
	Recovered         uint64 // errors of a QP after which the services continued
	Dropped           map[Drop]uint64
}

type counters struct {
	sent, received, retried, timedOut, recovered atomic.Uint64
	dropped                                      [drops]atomic.Uint64
}

func (c *counters) drop(d Drop) { c.dropped[d].Add(1) }

func (c *counters) snapshot() Counters {
	s := Counters{Sent: c.sent.Load(), Received: c.received.Load(), Retried: c.retried.Load(),
		TimedOut:  c.timedOut.Load(),
		Recovered: c.recovered.Load(), Dropped: make(map[Drop]uint64)}
	for d := range c.dropped {
		if n := c.dropped[d].Load(); n > 0 {
			s.Dropped[Drop(d)] = n
		}
	}
	return s
}
