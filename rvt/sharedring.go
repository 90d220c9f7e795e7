package rvt

import "ciddk/ci"

// A UserContext is a driver's half of the context of one client process. It makes the queues of the objects that the
// process creates, some of which lie in memory that the process can write to. Ops.OpenUser creates one. Its methods may
// be called concurrently.
//
// After a create verb has made its queues, it calls the Add method of the object, which answers the UserBuffer of the
// verb. If Add fails, so does the verb.
type UserContext interface {
	Rings
	AddCQ(ring CompletionRing, ub *ci.UserBuffer) error
	AddSRQ(ring RecvRing, ub *ci.UserBuffer) error
	// AddQP adds a QP. rq is nil for a QP with an SRQ. kick runs the engine of the QP, which has new work; it does not
	// block, and has no effect on a destroyed QP.
	AddQP(num ci.QPN, sq SendRing, rq RecvRing, kick func(), ub *ci.UserBuffer) error
	AddAV(av *AV, ub *ci.UserBuffer) error
	// Settle kicks the QPs for what the process has posted before the call, so that a verb finds it executed, as if the
	// post had been a call. The caller holds no lock. Settle may be called after Close.
	Settle()
	RemoveAV(av *AV)
	// Close releases what the context holds. It does not need the process, which may have exited.
	Close()
}

// The interfaces below are optional for rings of a UserContext. A ring whose other side is in another process has them.

// SharedSendRing is a send queue whose producer is another process. The engine validates each request that it decodes,
// since no post did.
type SharedSendRing interface {
	SendRing
	// SetState stores the state of the QP for the producer to read. The engine calls it with the token held.
	SetState(s ci.QPState)
}

// DiscardedRing is an optional interface of a SharedSendRing whose producer appends requests before it learns whether
// the QP is in a state to send.
type DiscardedRing interface {
	// Discard removes the requests that Next has not returned. The engine calls it with the token held, in states in
	// which it takes no requests.
	Discard()
}

// SharedCompletionRing is a completion queue whose consumer is another process, which arms it by itself.
type SharedCompletionRing interface {
	CompletionRing
	// Fires reports whether the consumer has armed the queue for what was published before the call, and disarms it if
	// so. solicited reports whether that includes a solicited completion or an error.
	Fires(solicited bool) bool
}

// ResizedRing is a queue that can move to another place of the shared memory. The process does not use the queue while
// it moves.
type ResizedRing interface {
	// ResizeShared does what Resize does, and writes the place of the new queue to ub.
	ResizeShared(size int, ub *ci.UserBuffer) error
}

// resizeRing changes the size of a queue and answers ub.
func resizeRing(ring interface{ Resize(size int) error }, size int, ub *ci.UserBuffer) error {
	if r, ok := ring.(ResizedRing); ok && ub != nil {
		return r.ResizeShared(size, ub)
	}
	if err := ring.Resize(size); err != nil {
		return err
	}
	nothingForUser(ub)
	return nil
}

// FreedRing is a queue whose memory is released explicitly.
type FreedRing interface {
	// Free releases the memory. The engine does not use the queue any more.
	Free()
}

// freeRing releases the memory of a queue that is not used any more.
func freeRing(ring any) {
	if f, ok := ring.(FreedRing); ok {
		f.Free()
	}
}
