package rings

import (
	"fmt"

	"ciddk/ci"
	"ciddk/rvt"
)

// RXE creates queues with the layout of Linux Soft-RoCE, for consumers in this process. The zero value is ready for
// use, and allocates queues on the Go heap.
//
// The capacity of a queue is one less than a power of two: SendRing(15, …) has room for 15 requests, SendRing(16, …)
// for 31. Errors are *ci.Error. For sizes out of range, the status is ci.InvalidMaxWRs, ci.InvalidMaxSGE,
// ci.InvalidParameter (inline) or ci.InvalidCQSize. With the *ci.UserBuffer of a user library, for queues that another
// process fills, it is ci.Unsupported.
type RXE struct {
	// Alloc, if not nil, returns the memory of a queue: size zero bytes, aligned to 8, that stay mapped until the HCA
	// is closed. Other processes may be able to write to it. Its errors are its own, or statuses of package ci.
	Alloc func(size int) ([]byte, error)
}

var (
	_ rvt.Rings     = RXE{}
	_ rvt.RingSizes = RXE{}
)

// SendRingBytes returns the number of bytes that SendRing allocates for a queue, and for the side table of address
// vectors that datagrams need.
func (RXE) SendRingBytes(depth, sge, inline int) int64 {
	slots, shift := sendGeometry(depth, sge, inline)
	return int64(queueSize(slots, shift)) + int64(slots)*sideBytes
}

// SendRingDepth returns the depth of the queue that SendRing creates, or SendRing's error.
func (RXE) SendRingDepth(depth, sge, inline int) (int, error) {
	if err := checkSend(depth, sge, inline, nil); err != nil {
		return 0, err
	}
	slots, _ := sendGeometry(depth, sge, inline)
	return slots - 1, nil
}

// sideBytes is the number of bytes of a slot in a sideTable, without the WorkExt that only requests to bind or register
// need.
const sideBytes = 8 + 8 + 1

// RecvRingBytes returns the number of bytes that RecvRing allocates for a queue.
func (RXE) RecvRingBytes(depth, sge int) int64 {
	return int64(queueSize(recvGeometry(depth, sge)))
}

// CompletionRingBytes returns the number of bytes that CompletionRing allocates for a queue.
func (RXE) CompletionRingBytes(size int) int64 {
	slots, shift := geometry(size, wcSize)
	return int64(queueSize(slots, shift)) + int64(slots)*contextBytes
}

// contextBytes is the number of bytes of a completion's context, an interface value.
const contextBytes = 16

// SendRing creates a send queue for depth requests, each of up to sge entries or inline bytes.
func (r RXE) SendRing(depth, sge, inline int, ub *ci.UserBuffer) (rvt.SendRing, error) {
	if err := checkSend(depth, sge, inline, ub); err != nil {
		return nil, err
	}
	b, err := r.bytes("PD.CreateQP", queueSize(sendGeometry(depth, sge, inline)))
	if err != nil {
		return nil, err
	}
	return newSendRing(b, depth, sge, inline), nil
}

// RecvRing creates a receive queue for depth receives of up to sge entries.
func (r RXE) RecvRing(depth, sge int, ub *ci.UserBuffer) (rvt.RecvRing, error) {
	if err := check("PD.CreateQP", depth, sge, ub); err != nil {
		return nil, err
	}
	b, err := r.bytes("PD.CreateQP", queueSize(recvGeometry(depth, sge)))
	if err != nil {
		return nil, err
	}
	return newRecvRing(b, depth, sge), nil
}

// CompletionRing creates a completion queue for size entries.
func (r RXE) CompletionRing(size int, ub *ci.UserBuffer) (rvt.CompletionRing, error) {
	const verb = "PD.CreateCQ"
	switch {
	case hasHalf(ub):
		return nil, bad(verb, ci.Unsupported, "queues in another process's memory")
	case size < 1 || size > maxDepth:
		return nil, bad(verb, ci.InvalidCQSize, "size %d, want 1 to %d", size, maxDepth)
	}
	slots, shift := geometry(size, wcSize)
	b, err := r.bytes(verb, queueSize(slots, shift))
	if err != nil {
		return nil, err
	}
	return newCompletionRing(b, size), nil
}

// bytes returns the memory of a queue.
func (r RXE) bytes(verb string, size int) ([]byte, error) {
	if r.Alloc == nil {
		return alignedBytes(size), nil
	}
	b, err := r.Alloc(size)
	switch {
	case err != nil:
		return nil, &ci.Error{Verb: verb, Status: ci.InsufficientMemory, Err: err}
	case len(b) != size || !aligned(b):
		return nil, bad(verb, ci.InsufficientMemory, "RXE.Alloc returned %d bytes, want %d, aligned to 8", len(b), size)
	}
	return b, nil
}

func checkSend(depth, sge, inline int, ub *ci.UserBuffer) error {
	const verb = "PD.CreateQP"
	if err := check(verb, depth, sge, ub); err != nil {
		return err
	}
	if inline < 0 || inline > maxInline {
		return bad(verb, ci.InvalidParameter, "%d inline bytes, want 0 to %d", inline, maxInline)
	}
	return nil
}

func check(verb string, depth, sge int, ub *ci.UserBuffer) error {
	switch {
	case hasHalf(ub):
		return bad(verb, ci.Unsupported, "queues in another process's memory")
	case depth < 0 || depth > maxDepth:
		return bad(verb, ci.InvalidMaxWRs, "depth %d, want 0 to %d", depth, maxDepth)
	case sge < 0 || sge > maxSGE:
		return bad(verb, ci.InvalidMaxSGE, "%d scatter/gather entries, want 0 to %d", sge, maxSGE)
	}
	return nil
}

// hasHalf reports whether ub is from a process with a user library, which expects queues that it can fill.
func hasHalf(ub *ci.UserBuffer) bool { return ub != nil && (ub.Command != 0 || len(ub.In) > 0) }

func bad(verb string, s ci.Status, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: s, Detail: fmt.Sprintf("rings: "+format, args...)}
}
