package rvt

import "ciddk/ci"

// The interfaces below are optional for rings of a UserContext. A ring whose other side is in another process has them.

// SharedSendRing is a send queue whose producer is another process. The engine validates each request that it decodes,
// since no post did.
type SharedSendRing interface {
	SendRing
	// SetState tells the producer the state of the QP. The engine calls it with the token held.
	SetState(s ci.QPState)
}

// SharedCompletionRing is a completion queue whose consumer is another process, which arms it by itself.
type SharedCompletionRing interface {
	CompletionRing
	// Fires reports whether the consumer has armed the queue for what was published before the call, and disarms it if
	// so. solicited reports whether that includes a solicited completion or an error.
	Fires(solicited bool) bool
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
