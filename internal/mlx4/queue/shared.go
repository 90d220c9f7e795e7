package queue

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// A SharedRing is a shared receive queue: a list of WQEs, each with the index of the next one. The adapter consumes the
// list from its head. Slots return to its end in any order. One slot stays unused, since the list is never empty. The
// ring does not read the list in the memory, which the adapter could change.
//
// The caller serialises all methods.
type SharedRing struct {
	buf    []byte
	record []byte
	shift  uint8
	ids    []uint64
	sizes  []uint64 // bytes
	next   []uint16 // the list
	posted []bool
	head   uint16 // the next slot to post
	tail   uint16 // the last free slot
	count  uint16 // of posts
	free   int
}

// NewSharedRing returns a queue of 1<<log slots of 1<<shift bytes.
func NewSharedRing(buf, record []byte, log, shift uint8) (*SharedRing, error) {
	slots := 1 << log
	if shift <= MinRecvShift || shift > MaxRecvShift || log < 1 || log > 15 || len(buf) != slots<<shift ||
		len(record) < 4 || !isAligned(buf) || !isAligned(record) {
		return nil, errMemory
	}
	r := &SharedRing{buf: buf, record: record, shift: shift, ids: make([]uint64, slots), sizes: make([]uint64, slots),
		next: make([]uint16, slots), posted: make([]bool, slots), tail: uint16(slots - 1), free: slots - 1}
	for i := range slots {
		r.link(uint16(i), uint16((i+1)&(slots-1)))
	}
	store32(record, 0)
	return r, nil
}

// slot returns the bytes of a slot.
func (r *SharedRing) slot(n uint16) []byte {
	at := int(n) << r.shift
	return r.buf[at : at+1<<r.shift]
}

// link sets the successor of a slot.
func (r *SharedRing) link(n, next uint16) {
	r.next[n] = next
	binary.BigEndian.PutUint16(r.slot(n)[prm.NextIndex.Off:], next)
}

// Room returns the number of requests that can be posted.
func (r *SharedRing) Room() int { return r.free }

// Put writes a request to the next slot, for which there must be room. Publish passes it to the adapter.
func (r *SharedRing) Put(wr *ci.RecvWR) {
	b := r.slot(r.head)
	r.ids[r.head], r.sizes[r.head], r.posted[r.head] = wr.ID, sizeOf(wr.SGL), true
	EncodeRecv(b[prm.NextIndex.Layout.Size:], wr.SGL)
	r.head = r.next[r.head]
	r.count++
	r.free--
}

// Publish passes all requests to the adapter.
func (r *SharedRing) Publish() { store32(r.record, uint32(r.count)) }

// Fits reports whether a completion has no more bytes than its request. It reports false for a slot that is not
// outstanding. Complete follows it.
func (r *SharedRing) Fits(c *Completion) bool {
	return int(c.Index) < len(r.ids) && r.posted[c.Index] && c.fits(r.sizes[c.Index])
}

// Complete releases a slot and returns the ID of its request. It reports false for a slot that is not outstanding.
func (r *SharedRing) Complete(n uint16) (id uint64, ok bool) {
	if int(n) >= len(r.ids) || !r.posted[n] {
		return 0, false
	}
	r.posted[n] = false
	r.link(r.tail, n)
	r.tail = n
	r.free++
	return r.ids[n], true
}
