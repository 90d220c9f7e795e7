package rings

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
)

// recvRing is a receive queue. A slot is free again when Release has published it.
type recvRing struct {
	q    queue
	sge  uint32
	post uint32 // index of the producer
	next uint32 // index of the consumer

	// The other side's index when it was last read. It is read again only when it matters, since it is on a cache line
	// that the other side writes.
	freed  uint32 // producer's: slots before it are free
	posted uint32 // consumer's: slots before it are filled
}

// newRecvRing returns an empty receive queue over b.
func newRecvRing(b []byte, depth, sge int) *recvRing {
	slots, shift := recvGeometry(depth, sge)
	return &recvRing{q: newQueue(b, slots, shift), sge: uint32(sge)}
}

func recvGeometry(depth, sge int) (slots int, shift uint8) { return geometry(depth, rqSGE+sge*sgeSize) }

func (r *recvRing) Depth() int { return r.q.depth() }

func (r *recvRing) Len() int { return r.q.len() }

// Reset empties the queue. No other method may run at the same time.
func (r *recvRing) Reset() {
	r.post, r.next = 0, 0
	r.freed, r.posted = 0, 0
	r.q.clear()
}

// Post encodes and publishes requests until the queue is full, and returns their number. A request beyond the queue's
// limits, which the engine rejects before, ends the batch.
func (r *recvRing) Post(wrs []ci.RecvWR) int {
	room := (r.freed - r.post - 1) & r.q.mask
	if uint64(room) < uint64(len(wrs)) {
		r.freed = r.q.consumer()
		room = (r.freed - r.post - 1) & r.q.mask
	}
	n := 0
	for n < len(wrs) && uint32(n) < room {
		w := &wrs[n]
		if len(w.SGL) > int(r.sge) {
			break
		}
		b := r.q.slot(r.post)
		_ = b[rqSGE-1]
		sum := uint32(0)
		for i := range w.SGL {
			putSGE(b[rqSGE+i*sgeSize:], &w.SGL[i])
			sum += w.SGL[i].Length
		}
		ne.PutUint64(b[rqID:], w.ID)
		ne.PutUint32(b[rqDMA+dmaLength:], sum)
		ne.PutUint32(b[rqDMA+dmaResid:], sum)
		ne.PutUint32(b[rqDMA+dmaNumSGE:], uint32(len(w.SGL)))
		r.post = (r.post + 1) & r.q.mask
		n++
	}
	if n > 0 {
		atomic.StoreUint32(r.q.prod, r.post)
	}
	return n
}

// Next decodes the oldest receive and frees its slot. It returns false if there is none.
func (r *recvRing) Next(w *rvt.RecvWork) bool {
	if !r.Take(w) {
		return false
	}
	r.Release()
	return true
}

// Release frees the slots of the receives that were taken.
func (r *recvRing) Release() { atomic.StoreUint32(r.q.cons, r.next) }

// Take decodes the oldest receive. Release frees its slot. Take returns false if there is none.
func (r *recvRing) Take(w *rvt.RecvWork) bool {
	if r.next == r.posted {
		if r.posted = r.q.producer(); r.next == r.posted {
			return false
		}
	}
	b := r.q.slot(r.next)
	w.ID = ne.Uint64(b[rqID:])
	w.SGL, w.Bad = w.SGL[:0], false
	if n := ne.Uint32(b[rqDMA+dmaNumSGE:]); n > r.sge {
		w.Bad = true
	} else {
		// The sum of the lengths is not limited: a buffer may be longer than the longest message.
		w.SGL, _ = sgesAppend(w.SGL, b[rqSGE:], n)
	}
	r.next = (r.next + 1) & r.q.mask
	return true
}

// Resize moves the posted receives to new storage. No other method may run at the same time.
func (r *recvRing) Resize(depth int) error {
	const verb = "SRQ.Modify"
	if depth < 1 || depth > maxDepth {
		return bad(verb, ci.InvalidMaxWRs, "depth %d, want 1 to %d", depth, maxDepth)
	}
	n := (r.q.producer() - r.next) & r.q.mask
	slots, shift := recvGeometry(depth, int(r.sge))
	if int(n) > depth {
		return bad(verb, ci.InvalidMaxWRs, "%d receives are posted, %d would fit", n, depth)
	}
	if slots == int(r.q.mask)+1 {
		return nil
	}
	q := newQueue(alignedBytes(queueSize(slots, shift)), slots, shift)
	for i := range n {
		copy(q.slot(i), r.q.slot((r.next+i)&r.q.mask))
	}
	*q.prod = n
	r.q, r.post, r.next = q, n, 0
	r.freed, r.posted = 0, n
	return nil
}
