package queue

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// Sizes of queues.
const (
	MinSendShift = 6 // log2 of the smallest slot of a send queue
	MaxSendShift = 10
	MinRecvShift = 4
	MaxRecvShift = 9

	// prefetch is the number of bytes that the adapter reads beyond a send WQE. Slots of this size stay unused (linux
	// ib qp.c, set_kernel_sq_size).
	prefetch = 2048

	block = 64 // bytes that the adapter reads at once

	completionBits = prm.CompletionAlways << 2 // prm.CtrlCompletion in its byte

	ownerBit = 1 << 31
	stamp    = 1<<32 - 1
)

// errMemory is the error of memory that does not fit a queue.
var errMemory = errors.New("queue: the memory does not have the size or alignment of the queue")

// A sent is what a send queue keeps of a request, to check its completion.
type sent struct {
	id         uint64
	size       uint32 // bytes; more than maxMessage for any number above it
	opcode     uint8
	isSignaled bool // the adapter reports success, too
}

// sentOf returns what a send queue keeps of a request with its WQE.
func sentOf(wr *ci.SendWR, wqe []byte, opcode uint8) sent {
	s := sent{id: wr.ID, opcode: opcode &^ bigLSO, isSignaled: wqe[prm.CtrlCompletion.Off+3]&completionBits != 0}
	switch wr.Op {
	case ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpLSO:
		if s.size = uint32(min(sizeOf(wr.SGL), maxMessage+1)); wr.Inline != nil {
			s.size = uint32(len(wr.Inline))
		}
	case ci.OpCompareSwap, ci.OpFetchAdd:
		s.size = 8
	}
	return s
}

// SpareSlots returns how many slots of a send queue stay unused.
func SpareSlots(shift uint8) int { return prefetch>>shift + 1 }

// A SendRing is a send queue.
type SendRing struct {
	buf   []byte
	shift uint8 // log2 of the bytes of a slot
	log   uint8 // log2 of the slots
	mask  uint32
	depth uint32
	sent  []sent

	head atomic.Uint32 // running index of the next slot; the goroutine that posts writes it
	tail atomic.Uint32 // and of the oldest outstanding one; the goroutine that completes writes it
}

// NewSendRing returns a queue of 1<<log slots of 1<<shift bytes in buf, of which depth can be in use at a time.
func NewSendRing(buf []byte, log, shift uint8, depth int) (*SendRing, error) {
	slots := 1 << log
	if shift < MinSendShift || shift > MaxSendShift || log > 15 || len(buf) != slots<<shift || !isAligned(buf) ||
		depth < 0 || depth > slots {
		return nil, errMemory
	}
	r := &SendRing{buf: buf, shift: shift, log: log, mask: uint32(slots - 1), depth: uint32(depth),
		sent: make([]sent, slots)}
	r.Reset()
	return r, nil
}

// Reset empties the queue: no slot is the adapter's. The QP is in Reset.
func (r *SendRing) Reset() {
	for at := 0; at < len(r.buf); at += block {
		store32(r.buf[at:], stamp)
	}
	for at := 0; at < len(r.buf); at += 1 << r.shift {
		store32(r.buf[at:], ownerBit)
	}
	r.tail.Store(0)
	r.head.Store(0)
}

// Room returns the number of requests that can be posted.
func (r *SendRing) Room() int { return int(r.depth - (r.head.Load() - r.tail.Load())) }

// Next returns the slot of the next request. There must be room.
func (r *SendRing) Next() []byte {
	at := int(r.head.Load()&r.mask) << r.shift
	end := at + 1<<r.shift
	return r.buf[at:end:end]
}

// Index returns the running index of the next request.
func (r *SendRing) Index() uint32 { return r.head.Load() }

// Slot returns the number of the slot of the next request.
func (r *SendRing) Slot() int { return int(r.head.Load() & r.mask) }

// Slots returns the number of slots.
func (r *SendRing) Slots() int { return int(r.mask) + 1 }

// Commit passes the slot, which has the WQE of a request, to the adapter. units is the size of the WQE in 16 bytes. It
// returns the running index.
func (r *SendRing) Commit(wr *ci.SendWR, opcode uint8, units int) uint32 {
	n := r.head.Load()
	slot := r.buf[int(n&r.mask)<<r.shift:]
	r.sent[n&r.mask] = sentOf(wr, slot, opcode)
	first := uint32(opcode)
	if n>>r.log&1 != 0 {
		first |= ownerBit
	}
	r.head.Store(n + 1)
	store32(slot, first)
	if r.shift > MinSendShift {
		r.stampAhead(n)
	}
	return n
}

// stampAhead invalidates the blocks of a slot that is posted later, so that the adapter does not take what an earlier
// WQE left there for a part of it (linux ib qp.c, stamp_send_wqe).
func (r *SendRing) stampAhead(n uint32) {
	next := (n + r.spare()) & r.mask
	slot := r.buf[int(next)<<r.shift:][:1<<r.shift]
	used := int(slot[prm.CtrlSize.Off]&0x3f) * prm.CtrlSegment
	for at := block; at < min(used, len(slot)); at += block {
		store32(slot[at:], stamp)
	}
}

// spare returns the distance of the slot to stamp: one that is not in use.
func (r *SendRing) spare() uint32 { return max(r.mask+1-r.depth, 1) }

// Complete releases the slots up to that of a completion, whose index has 16 bits, and returns the ID of its request.
// It reports false for an index that is not outstanding.
func (r *SendRing) Complete(index uint16) (id uint64, ok bool) {
	tail, n := r.Until(index)
	if n == 0 {
		return 0, false
	}
	id = r.sent[(tail+n-1)&r.mask].id
	r.tail.Store(tail + n)
	return id, true
}

// Fits reports whether a completion can be that of its request: a successful one is of a request that is signaled, and
// has the request's opcode, and for RDMA READ and atomics the request's length. It reports false for an index that is
// not outstanding. It sets c.Length of other operations, for which the adapter does not report one. Complete follows.
func (r *SendRing) Fits(c *Completion) bool {
	tail, n := r.Until(c.Index)
	if n == 0 {
		return false
	}
	s := &r.sent[(tail+n-1)&r.mask]
	switch c.Op {
	case ci.WCRead, ci.WCCompareSwap, ci.WCFetchAdd:
	default:
		c.Length = s.size
	}
	return c.Status != ci.WCSuccess ||
		s.isSignaled && c.opcode == s.opcode && c.Length == s.size && s.size <= maxMessage
}

// Oldest returns the index of the oldest outstanding request. It reports false if there is none.
func (r *SendRing) Oldest() (index uint16, ok bool) {
	tail := r.tail.Load()
	return uint16(tail), tail != r.head.Load()
}

// Until returns the running index of the oldest outstanding request, and the number of requests from that up to the one
// of a completion, whose index has 16 bits. The number is 0 for an index that is not outstanding.
func (r *SendRing) Until(index uint16) (first, n uint32) {
	first = r.tail.Load()
	ahead := uint32(index - uint16(first))
	if ahead >= r.head.Load()-first {
		return first, 0
	}
	return first, ahead + 1
}

// Outstanding returns the number of requests that are not complete.
func (r *SendRing) Outstanding() int { return int(r.head.Load() - r.tail.Load()) }

// Flame returns the WQE of a running index as BlueFlame needs it, appended to b: padded to whole blocks, with index and
// QP number in the control segment.
func (r *SendRing) Flame(b []byte, n, qpn uint32) []byte {
	slot := r.buf[int(n&r.mask)<<r.shift:][:1<<r.shift]
	size := (int(slot[prm.CtrlSize.Off]&0x3f)*prm.CtrlSegment + block - 1) &^ (block - 1)
	b = append(b, slot[:min(size, len(slot))]...)
	be := binary.BigEndian
	be.PutUint32(b, be.Uint32(b)|n&0xffff<<8)
	be.PutUint32(b[4:], be.Uint32(b[4:])|qpn<<8)
	return b
}
