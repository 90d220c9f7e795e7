package mads

import "sync/atomic"

// Drop is why a datagram came to nothing.
type Drop uint8

const (
	DropLength    Drop = iota // received: not mad.Size bytes
	DropVersion               // received: base version is not 1
	DropClass                 // received: a class of QP0 on QP1 or the other way round
	DropAddress               // received: no address to answer to, for want of a GRH or with the sender's or our GID not usable
	DropHops                  // received: a directed route that does not lead here
	DropUnmatched             // received: a response to no request of an agent's, or an RMPP answer to no transfer
	DropUnclaimed             // received: a request that no agent, nor the port's own, wants, and that is not answered
	DropQueue                 // received: the agent's queue was full
	DropBusy                  // received: too many requests wait for the port's own agent
	DropRMPP                  // received: an RMPP packet that breaks the protocol, or a transfer that came to no end
	DropResources             // received: an RMPP transfer beyond the limits
	DropReceive               // received: the HCA reported an error
	DropSendQueue             // not sent: an answer of the service itself, the send queue being full
	DropTransfer              // not sent: a long message that the peer refused or did not acknowledge
	DropSend                  // not sent: the HCA reported an error
	DropClosed                // not sent: the port went
	DropReply                 // not sent: an error status or an abort beyond Config.MaxReplies or MaxRepliesPeer
	drops
)

// String names the reason.
func (d Drop) String() string {
	names := [drops]string{"length", "version", "class", "address", "hops", "unmatched", "unclaimed", "queue", "busy", "RMPP", "resources",
		"receive error", "send queue", "transfer", "send error", "closed", "reply"}
	if d < drops {
		return names[d]
	}
	return "unknown"
}

// Counters are the numbers of one port, since its services began.
type Counters struct {
	Sent, Received    uint64 // datagrams on the wire
	Retried, TimedOut uint64 // requests sent again; requests without an answer in the end
	Recovered         uint64 // errors of a QP that the services got over
	Dropped           map[Drop]uint64
}

type counters struct {
	sent, received, retried, timedOut, recovered atomic.Uint64
	dropped                                      [drops]atomic.Uint64
}

func (c *counters) drop(d Drop) { c.dropped[d].Add(1) }

func (c *counters) snapshot() Counters {
	s := Counters{Sent: c.sent.Load(), Received: c.received.Load(), Retried: c.retried.Load(), TimedOut: c.timedOut.Load(),
		Recovered: c.recovered.Load(), Dropped: make(map[Drop]uint64)}
	for d := range c.dropped {
		if n := c.dropped[d].Load(); n > 0 {
			s.Dropped[Drop(d)] = n
		}
	}
	return s
}
