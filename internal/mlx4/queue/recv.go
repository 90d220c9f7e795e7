package queue

import (
	"encoding/binary"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// A RecvRing is the receive queue of a QP.
type RecvRing struct {
	buf    []byte
	record []byte // the doorbell record
	shift  uint8
	mask   uint32
	depth  uint32
	ids    []uint64
	sizes  []uint64 // bytes

	head atomic.Uint32
	tail atomic.Uint32
}

// NewRecvRing returns a queue of 1<<log slots of 1<<shift bytes in buf, of which depth can be in use at a time.
func NewRecvRing(buf, record []byte, log, shift uint8, depth int) (*RecvRing, error) {
	slots := 1 << log
	if shift < MinRecvShift || shift > MaxRecvShift || log > 15 || len(buf) != slots<<shift || len(record) < 4 ||
		!isAligned(buf) || !isAligned(record) || depth < 0 || depth > slots {
		return nil, errMemory
	}
	return &RecvRing{buf: buf, record: record, shift: shift, mask: uint32(slots - 1), depth: uint32(depth),
		ids: make([]uint64, slots), sizes: make([]uint64, slots)}, nil
}

// Reset empties the queue. The QP is in Reset.
func (r *RecvRing) Reset() {
	r.tail.Store(0)
	r.head.Store(0)
	store32(r.record, 0)
}

// Room returns the number of requests that can be posted.
func (r *RecvRing) Room() int { return int(r.depth - (r.head.Load() - r.tail.Load())) }

// Put writes a request to the next slot, for which there must be room. Publish passes it to the adapter.
func (r *RecvRing) Put(wr *ci.RecvWR) {
	n := r.head.Load()
	r.ids[n&r.mask], r.sizes[n&r.mask] = wr.ID, sizeOf(wr.SGL)
	at := int(n&r.mask) << r.shift
	EncodeRecv(r.buf[at:at+1<<r.shift], wr.SGL)
	r.head.Store(n + 1)
}

// Publish passes all requests to the adapter.
func (r *RecvRing) Publish() { store32(r.record, r.head.Load()&0xffff) }

// Oldest returns the index of the oldest outstanding request. It reports false if there is none.
func (r *RecvRing) Oldest() (index uint16, ok bool) {
	tail := r.tail.Load()
	return uint16(tail), tail != r.head.Load()
}

// Complete releases the oldest slot and returns the ID of its request. It reports false if the index of the completion
// is another one: receive queues complete in order.
func (r *RecvRing) Complete(index uint16) (id uint64, ok bool) {
	tail := r.tail.Load()
	if tail == r.head.Load() || index != uint16(tail) {
		return 0, false
	}
	id = r.ids[tail&r.mask]
	r.tail.Store(tail + 1)
	return id, true
}

// Fits reports whether a completion has no more bytes than the oldest outstanding request. It reports false if there is
// none. Complete follows it.
func (r *RecvRing) Fits(c *Completion) bool {
	tail := r.tail.Load()
	return tail != r.head.Load() && c.fits(r.sizes[tail&r.mask])
}

// sizeOf returns the number of bytes of a list.
func sizeOf(list []ci.SGE) (n uint64) {
	for i := range list {
		n += uint64(list[i].Length)
	}
	return n
}

// EncodeRecv writes the segments of a receive to a slot. An invalid segment ends them.
func EncodeRecv(slot []byte, list []ci.SGE) {
	for _, s := range list {
		putData(slot, s)
		slot = slot[prm.DataSegment:]
	}
	if len(slot) >= prm.DataSegment {
		binary.BigEndian.PutUint32(slot, 0)
		binary.BigEndian.PutUint32(slot[4:], prm.InvalidKey)
		binary.BigEndian.PutUint64(slot[8:], 0)
	}
}

// putData writes a data segment. Its byte count is the last word that changes, since the adapter reads ahead.
func putData(b []byte, s ci.SGE) {
	_ = b[prm.DataSegment-1]
	binary.BigEndian.PutUint32(b[4:], uint32(s.LKey))
	binary.BigEndian.PutUint64(b[8:], s.Addr)
	n := s.Length
	if n == 0 {
		n = prm.ZeroLengthCount
	}
	store32(b, n)
}
