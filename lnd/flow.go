package lnd

import "slices"

// A credit stands for a receive buffer that the peer has posted. A message that needs a credit is not sent without one,
// so the peer always has a buffer for it. (Without a buffer, RC sends RNR NAKs and retries, which is slow.) Messages
// that begin a transfer need a credit: IMMEDIATE, PUT_REQ, GET_REQ. Replies need none, because the requester has
// reserved a buffer. If replies needed credits, both ends could wait for each other. In version 1 a NOOP needs a
// credit, too, and the last one is kept for it.
func (f *flow) costs(t msgType) bool {
	return t == immediate || t == putReq || t == getReq || t == noop && f.v1
}

const (
	minDepth = 2 // a smaller depth is rejected, as on Linux: every message would need a NOOP
	maxNoops = 2 // in flight: the number of buffers for them
)

// recvs returns the number of receives that an end keeps posted: for D messages with a credit, D replies, and the
// NOOPs.
func recvs(depth int) int { return 2*depth + maxNoops }

// A flow decides when a message may be sent. It is a state machine without locks, time or I/O, so that a test can
// connect two of them and try all orders of events. Most defects of a protocol are in this part.
//
// Each of the D credits of one direction is always in one of these places: at the sender (credits); with a message that
// is in flight or being handled; at the receiver, to be returned (owed); on its way back in a message.
type flow struct {
	depth    int
	most     int // messages being sent at a time (concurrent_sends)
	high     int // owed credits that a NOOP returns (peer_credits_hiw)
	v1       bool
	spare    int     // free requests of the send queue beyond those of a message with one WRITE
	credits  int     // that this end may use
	owed     int     // that this end returns with the next message
	theirs   int     // that the peer has, or that are on the way to it
	posted   int     // messages being sent, so that the send queue cannot overflow
	noops    int     // NOOPs among them
	quiet    bool    // nothing was sent since the last call of probe
	probing  bool    // next returns a NOOP even if few credits are owed
	requests []*send // that wait for a credit
	answers  []*send // that wait only for room in the send queue
}

// newFlow returns the flow of a new connection, in which the senders have all credits.
func newFlow(depth int) flow {
	return flow{depth: depth, most: depth, high: max(1, depth/2), credits: depth, theirs: depth}
}

// push queues a message.
func (f *flow) push(s *send) {
	if f.costs(s.msg.Type) {
		f.requests = append(f.requests, s)
	} else {
		f.answers = append(f.answers, s)
	}
}

// next returns the message to send now, or nil. The message returns all owed credits. If there is no other message,
// next returns a NOOP as soon as high credits are owed. The peer can use the other credits while the NOOP is in flight.
func (f *flow) next() (s *send) {
	least := 1 // credits with which a request is sent
	if f.v1 {
		least = 2
	}
	switch {
	case f.posted >= f.most:
		return nil
	case len(f.answers) > 0:
		s = f.answers[0]
		if s.extra() > f.spare {
			return nil
		}
		f.spare -= s.extra()
		f.answers = slices.Delete(f.answers, 0, 1)
	case f.credits >= least && len(f.requests) > 0:
		s = f.requests[0]
		f.requests = slices.Delete(f.requests, 0, 1)
		f.credits--
	case f.wantsNoop():
		s = &send{msg: message{header: header{Type: noop}}}
		f.noops++
		if f.v1 {
			f.credits--
		}
	default:
		return nil
	}
	f.posted++
	f.quiet, f.probing = false, false
	f.theirs += f.owed
	s.msg.Credits, f.owed = uint8(f.owed), 0
	return s
}

// wantsNoop reports whether a NOOP may and should be sent.
func (f *flow) wantsNoop() bool {
	allowed := f.noops < maxNoops && (!f.v1 || f.credits > 1 || f.credits == 1 && f.owed > 0)
	return allowed && (f.probing || f.owed >= f.high)
}

// probe is called at regular intervals. If all transfers wait for the peer, it has nothing to acknowledge, and nothing
// detects that it is silent. After an interval without a message, a NOOP is sent, as on Linux.
func (f *flow) probe() {
	f.probing = f.quiet && f.posted == 0
	f.quiet = true
}

// sent reports the arrival of a message that next has returned.
func (f *flow) sent(s *send) {
	f.posted--
	f.spare += s.extra()
	if s.msg.Type == noop {
		f.noops--
	}
}

// received adds the credits that a message returns, and counts the one that it has used. Errors: ErrMessage if the peer
// returns credits that it did not have, or sends without a credit.
func (f *flow) received(t msgType, credits uint8) error {
	if f.credits += int(credits); f.credits > f.depth {
		return malformed("%d credits, of %d", f.credits, f.depth)
	}
	if f.costs(t) {
		if f.theirs--; f.theirs < 0 {
			return malformed("%v without a credit", t)
		}
	}
	if f.v1 && t == noop {
		f.owed++
	}
	return nil
}
