package lnd

import "slices"

// A credit is a receive buffer that the peer has posted for us. Nothing that needs one is sent without, so no message finds the peer without a
// buffer (on RC that would be RNR NAKs and retries: slow at best). What begins something costs a credit: IMMEDIATE, PUT_REQ, GET_REQ. What
// answers costs none: who asked has kept a buffer for it. If answers needed credits, both ends could wait for each other.
func costs(t msgType) bool { return t == immediate || t == putReq || t == getReq }

const (
	minDepth = 2 // less is refused, as on Linux: every message would need a NOOP
	maxNoops = 2 // under way: there are so many buffers for them
)

// recvs is how many receives an end keeps posted: for D messages that cost a credit, D answers, and NOOPs.
func recvs(depth int) int { return 2*depth + maxNoops }

// flow decides which message may be sent when. It is a state machine, without locks, time or I/O, so that a test can play two of them
// against each other in any order of events: most mistakes of a protocol are here, and this is where they are cheap to find.
//
// Of the depth D credits of one direction, each is at any time in one of these places: with the sender, to be used (credits); with a message
// that is under way or being handled; with the receiver, to be given back (owed); on its way back in a message.
type flow struct {
	depth   int
	credits int     // that we may use
	owed    int     // that we have to give back: what they were used for is done
	theirs  int     // that the peer has, or that are on their way to it
	posted  int     // messages being sent: depth at most, so that the send queue cannot overflow
	noops   int     // of these, NOOPs
	asking  []*send // wait for a credit
	answers []*send // wait for room in the send queue only
}

// newFlow is a connection's begin: all credits are with the senders.
func newFlow(depth int) flow { return flow{depth: depth, credits: depth, theirs: depth} }

// push queues a message.
func (f *flow) push(s *send) {
	if costs(s.msg.Type) {
		f.asking = append(f.asking, s)
	} else {
		f.answers = append(f.answers, s)
	}
}

// next chooses what to send now, nil: nothing. All credits that we owe ride on it (piggyback). If there is nothing to ride on, a NOOP
// takes them, but not for each: when half of all are owed, the peer can go on with the other half while the NOOP travels.
func (f *flow) next() (s *send) {
	switch {
	case f.posted >= f.depth:
		return nil
	case len(f.answers) > 0:
		s = f.answers[0]
		f.answers = slices.Delete(f.answers, 0, 1)
	case f.credits > 0 && len(f.asking) > 0:
		s = f.asking[0]
		f.asking = slices.Delete(f.asking, 0, 1)
		f.credits--
	case f.owed >= max(1, f.depth/2) && f.noops < maxNoops:
		s = &send{msg: message{header: header{Type: noop}}}
		f.noops++
	default:
		return nil
	}
	f.posted++
	f.theirs += f.owed
	s.msg.Credits, f.owed = uint8(f.owed), 0
	return s
}

// sent: a message that next gave has arrived.
func (f *flow) sent(t msgType) {
	f.posted--
	if t == noop {
		f.noops--
	}
}

// received takes the credits that came with a message, and counts the one that it cost. Errors: ErrMessage, of a peer that makes credits, or
// sends without.
func (f *flow) received(t msgType, credits uint8) error {
	if f.credits += int(credits); f.credits > f.depth {
		return malformed("%d credits, of %d", f.credits, f.depth)
	}
	if costs(t) {
		if f.theirs--; f.theirs < 0 {
			return malformed("%v without a credit", t)
		}
	}
	return nil
}
