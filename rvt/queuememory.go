package rvt

import (
	"fmt"
	"math/bits"

	"ciddk/ci"
)

// DefaultQueueMemory is the default of Config.QueueMemory, in bytes.
const DefaultQueueMemory = 4 << 30

// DefaultInboxMemory is the default of Config.InboxMemory, in bytes.
const DefaultInboxMemory = 64 << 20

// RingSizes is an optional interface of Rings. Each method returns the bytes that a queue of these arguments occupies.
// The engine estimates the sizes for Rings without it.
type RingSizes interface {
	SendRingBytes(depth, sge, inline int) int64
	RecvRingBytes(depth, sge int) int64
	CompletionRingBytes(size int) int64
	// SendRingDepth returns the depth that SendRing grants, and its error. With it, the send ring of a QP is made when
	// the QP leaves RTR for the first time, so that half-open connections occupy no memory for it.
	SendRingDepth(depth, sge, inline int) (int, error)
}

// FixedSizes is an optional interface of Rings. Its methods return the bytes that the queues of an object occupy
// whatever their size. The engine adds them to the rest.
type FixedSizes interface {
	QPBytes() int64 // of both queues
	CQBytes() int64
	SRQBytes() int64
}

// qpBytes returns the bytes of a QP without its queues' entries.
func (d *device) qpBytes() int64 {
	if s, ok := d.cfg.Rings.(FixedSizes); ok {
		return qpSize + s.QPBytes()
	}
	return qpSize
}

// cqBytes returns the bytes of a CQ without its entries.
func (d *device) cqBytes() int64 {
	if s, ok := d.cfg.Rings.(FixedSizes); ok {
		return cqSize + s.CQBytes()
	}
	return cqSize
}

// srqBytes returns the bytes of an SRQ without its entries.
func (d *device) srqBytes() int64 {
	if s, ok := d.cfg.Rings.(FixedSizes); ok {
		return srqSize + s.SRQBytes()
	}
	return srqSize
}

// reserve takes n bytes of queue memory for a verb. Status: InsufficientResources.
func (d *device) reserve(verb, what string, n int64) error {
	if d.queues.take(n) {
		return nil
	}
	return failf(verb, ci.InsufficientResources, fmt.Sprintf(
		"%s needs %d bytes and %d of the %d bytes of queue memory are in use "+
			"(destroy queues, create smaller ones, or raise Config.QueueMemory)",
		what, n, d.queues.used.Load(), d.queues.limit))
}

// sendBytes returns the bytes of a send queue: its ring, and the window of decoded requests at its widest.
func (d *device) sendBytes(depth, sge, inline int) int64 {
	depth = max(depth, 1)
	slots := int64(1) << bits.Len(uint(depth))
	window := slots * (entryBytes + int64(sge)*sgeBytes)
	if s, ok := d.cfg.Rings.(RingSizes); ok {
		return window + s.SendRingBytes(depth, sge, inline)
	}
	return window + slots*(entryBytes+max(int64(sge)*sgeBytes, int64(inline)))
}

// recvBytes returns the bytes of a receive queue.
func (d *device) recvBytes(depth, sge int) int64 {
	depth = max(depth, 1)
	if s, ok := d.cfg.Rings.(RingSizes); ok {
		return s.RecvRingBytes(depth, sge)
	}
	return (int64(1) << bits.Len(uint(depth))) * (recvWorkBytes + int64(sge)*sgeBytes)
}

// completionBytes returns the bytes of a completion queue.
func (d *device) completionBytes(size int) int64 {
	if s, ok := d.cfg.Rings.(RingSizes); ok {
		return s.CompletionRingBytes(size)
	}
	return (int64(1) << bits.Len(uint(size))) * wcBytes
}

// responderBytes returns the bytes of the answers that a responder keeps: those to be sent, to new and repeated
// requests, and those remembered for repeated requests.
func responderBytes(resources uint8) int64 { return 4 * int64(roundedUp(resources)) * responseBytes }
