package lnd

import (
	"fmt"
	"slices"
)

// A credit is a receive buffer that the peer has posted for us. Nothing is sent without one, so no message finds the peer without a buffer
// (on RC that would be RNR NAKs and retries: slow at best). Three kinds of message differ in what they cost:
type class uint8

const (
	reserving class = iota // PUT_REQ, GET_REQ: a credit, and a reserved slot: the buffer at our end for the answer
	crediting              // IMMEDIATE: a credit
	free                   // PUT_ACK, PUT_NAK, PUT_DONE, GET_DONE, NOOP: the receiver has kept a buffer
)

// minDepth is the least depth that works: with a single credit, both ends could wait for each other.
const minDepth = 2

// maxNoops is how many NOOPs may be under way: there are so many extra buffers for them at each end.
const maxNoops = 2

// recvs is how many receives an end keeps posted: for D messages that cost a credit, D answers, and NOOPs.
func recvs(depth int) int { return 2*depth + maxNoops }

// flow decides what may be sent when: it has the queues and the credits of one end of a connection. It is a state machine, without
// locks, time or I/O, so that a test can drive two of them against each other through any order of events.
//
// Of the depth D credits for one direction, each is at any time in one of these places: to be used by the sender (its credits), with a
// message under way or being handled, owed by the receiver (its owed), or on its way back in a message.
type flow[T comparable] struct {
	depth     int
	highWater int           // owed credits that are worth a NOOP
	credits   int           // that we may use
	owed      int           // that we have to give back
	theirs    int           // that the peer has, or that are on their way to it
	reserved  int           // reserved slots that are free
	posted    int           // messages under way: depth at most, so that the send queue cannot overflow
	noops     int           // of these, NOOPs
	wanting   []T           // that need a slot, and have none
	ready     []outgoing[T] // that need a credit
	free      []T           // that need nothing
}

type outgoing[T any] struct {
	item T
	slot bool // it has a reserved slot
}

// newFlow is a connection's begin: all credits are with the senders.
func newFlow[T comparable](depth int) flow[T] {
	// At half of the depth, the peer can still send as many while the NOOP travels.
	return flow[T]{depth: depth, highWater: max(1, depth/2), credits: depth, theirs: depth, reserved: depth}
}

// push queues a message.
func (f *flow[T]) push(c class, item T) {
	switch c {
	case reserving:
		f.wanting = append(f.wanting, item)
		f.reserve()
	case crediting:
		f.ready = append(f.ready, outgoing[T]{item: item})
	default:
		f.free = append(f.free, item)
	}
}

// reserve gives slots to those that wait for one; then they stand in line for credits.
func (f *flow[T]) reserve() {
	for f.reserved > 0 && len(f.wanting) > 0 {
		f.reserved--
		f.ready = append(f.ready, outgoing[T]{item: shift(&f.wanting), slot: true})
	}
}

// remove takes back what has not been sent: false if it is not in a queue.
func (f *flow[T]) remove(item T) bool {
	if i := slices.IndexFunc(f.ready, func(o outgoing[T]) bool { return o.item == item }); i >= 0 {
		if f.ready[i].slot {
			f.reserved++
		}
		f.ready = slices.Delete(f.ready, i, i+1)
		f.reserve()
		return true
	}
	for _, q := range []*[]T{&f.wanting, &f.free} {
		if i := slices.Index(*q, item); i >= 0 {
			*q = slices.Delete(*q, i, i+1)
			return true
		}
	}
	return false
}

// next chooses what to send now: a message, a NOOP, or nothing. It carries all credits that we owe. Everything that next gave is to be sent,
// and sent called when it is complete.
func (f *flow[T]) next(keepalive bool) (item T, noop bool, credits uint8, ok bool) {
	if f.posted == f.depth {
		return item, false, 0, false
	}
	switch {
	case len(f.free) > 0:
		item = shift(&f.free)
	case f.credits > 0 && len(f.ready) > 0:
		f.credits--
		item = shift(&f.ready).item
	case (f.owed >= f.highWater || keepalive) && f.noops < maxNoops: // and nothing to carry the credits
		noop = true
		f.noops++
	default:
		return item, false, 0, false
	}
	f.posted++
	credits = uint8(f.owed)
	f.theirs += f.owed
	f.owed = 0
	return item, noop, credits, true
}

// shift takes the first of a queue.
func shift[T any](q *[]T) T {
	first := (*q)[0]
	*q = slices.Delete(*q, 0, 1)
	return first
}

// sent: a message is complete, its place in the send queue is free.
func (f *flow[T]) sent(noop bool) {
	f.posted--
	if noop {
		f.noops--
	}
}

// received takes the credits that came with a message, and counts the one that it cost. Errors: a peer that makes credits, or that
// sends without.
func (f *flow[T]) received(t Type, credits uint8) error {
	if f.credits += int(credits); f.credits > f.depth {
		return malformed("%d credits, of %d", f.credits, f.depth)
	}
	if classOf(t) != free {
		if f.theirs--; f.theirs < 0 {
			return malformed("%v without a credit", t)
		}
	}
	return nil
}

// owe: a buffer that cost the peer a credit can be used again.
func (f *flow[T]) owe() { f.owed++ }

// answered: the answer has come for which a slot was reserved, and its buffer can be used again.
func (f *flow[T]) answered() {
	f.reserved++
	f.reserve()
}

func (f *flow[T]) String() string {
	return fmt.Sprintf("%d credits, %d owed, %d of the peer's, %d slots, %d posted, %d, %d and %d waiting", f.credits, f.owed, f.theirs, f.reserved, f.posted,
		len(f.wanting), len(f.ready), len(f.free))
}

func classOf(t Type) class {
	switch t {
	case PutReq, GetReq:
		return reserving
	case Immediate:
		return crediting
	}
	return free
}
