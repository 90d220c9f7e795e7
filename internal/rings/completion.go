package rings

import (
	"encoding/binary"
	"sync/atomic"

	"ciddk/ci"
)

// completionRing is a completion queue. contexts holds the consumers' contexts, which are Go values, by slot. The
// producer writes a slot of it before it publishes the entry. The consumer clears it before it publishes the slot as
// free.
type completionRing struct {
	q        queue
	contexts []any
	put      uint32 // index of the producer
	get      uint32 // index of the consumer
	// Published indices. Both sides are in this process. They publish their indices in the shared bytes and here, and
	// read them only here. Otherwise, if another process overwrites an index, both sides could use a slot of contexts
	// at once.
	shown, taken atomic.Uint32
}

// newCompletionRing returns an empty completion queue over b.
func newCompletionRing(b []byte, size int) *completionRing {
	slots, shift := geometry(size, wcSize)
	return &completionRing{q: newQueue(b, slots, shift), contexts: make([]any, slots)}
}

func (r *completionRing) Cap() int { return r.q.depth() }

func (r *completionRing) Len() int { return int((r.shown.Load() - r.taken.Load()) & r.q.mask) }

// Put encodes and publishes one completion. It returns false if the queue is full.
func (r *completionRing) Put(wc *ci.WC) bool {
	if !r.Stage(wc) {
		return false
	}
	r.Publish()
	return true
}

// Publish makes the staged completions visible to the consumer.
func (r *completionRing) Publish() {
	atomic.StoreUint32(r.q.prod, r.put)
	r.shown.Store(r.put)
}

// Stage encodes one completion without publishing it. It returns false if the queue is full.
func (r *completionRing) Stage(wc *ci.WC) bool {
	i := r.put
	next := (i + 1) & r.q.mask
	if next == r.taken.Load() {
		return false
	}
	encodeWC(r.q.slot(i), wc)
	r.contexts[i] = wc.Context
	r.put = next
	return true
}

// encodeWC writes a completion to its slot.
func encodeWC(b []byte, wc *ci.WC) {
	_ = b[wcSize-1]
	ne.PutUint64(b[wcID:], wc.ID)
	status := uint32(packStatus[ci.WCGeneralErr])
	if int(wc.Status) < len(packStatus) {
		status = uint32(packStatus[wc.Status])
	}
	ne.PutUint32(b[wcStatus:], status)
	ne.PutUint32(b[wcOpcode:], uint32(packWCOp[wc.Op]))
	ne.PutUint32(b[wcVendorErr:], wc.VendorErr)
	ne.PutUint32(b[wcByteLen:], wc.Length)
	if wc.Flags&ci.WCInvalidated != 0 {
		ne.PutUint32(b[wcEx:], wc.Imm)
	} else {
		binary.BigEndian.PutUint32(b[wcEx:], wc.Imm)
	}
	ne.PutUint32(b[wcQPNum:], uint32(wc.QPN))
	ne.PutUint32(b[wcSrcQP:], uint32(wc.SrcQP))
	ne.PutUint32(b[wcFlags:], packWCFlags(wc.Flags))
	ne.PutUint16(b[wcPKeyIx:], wc.PKeyIndex)
	ne.PutUint16(b[wcSLID:], uint16(wc.SLID))
	b[wcSL], b[wcPathBits] = uint8(wc.SL), wc.PathBits
	ne.PutUint32(b[wcEECN:], uint32(wc.EECN))
	ne.PutUint16(b[wcEtherType:], wc.EtherType)
}

// Get decodes up to len(wcs) completions and frees their slots at once. It returns their number.
func (r *completionRing) Get(wcs []ci.WC) int {
	n := min(int((r.shown.Load()-r.get)&r.q.mask), len(wcs))
	if n == 0 {
		return 0
	}
	for k := range n {
		i := r.get
		decodeWC(&wcs[k], r.q.slot(i))
		wcs[k].Context = r.contexts[i]
		r.contexts[i] = nil
		r.get = (i + 1) & r.q.mask
	}
	atomic.StoreUint32(r.q.cons, r.get)
	r.taken.Store(r.get)
	return n
}

// decodeWC reads a completion from its slot. Its context is not in the slot.
func decodeWC(wc *ci.WC, b []byte) {
	_ = b[wcSize-1]
	wc.ID = ne.Uint64(b[wcID:])
	wc.Status, wc.Op = ci.WCGeneralErr, ci.WCSend
	if s := ne.Uint32(b[wcStatus:]); s < uint32(len(unpackStatus)) {
		wc.Status = unpackStatus[s]
	}
	if o := ne.Uint32(b[wcOpcode:]); o < uint32(len(unpackWCOp)) {
		wc.Op = unpackWCOp[o]
	}
	wc.VendorErr = ne.Uint32(b[wcVendorErr:])
	wc.Length = ne.Uint32(b[wcByteLen:])
	wc.Flags = unpackWCFlags(ne.Uint32(b[wcFlags:]))
	if wc.Flags&ci.WCInvalidated != 0 {
		wc.Imm = ne.Uint32(b[wcEx:])
	} else {
		wc.Imm = binary.BigEndian.Uint32(b[wcEx:])
	}
	wc.QPN = ci.QPN(ne.Uint32(b[wcQPNum:]))
	wc.SrcQP = ci.QPN(ne.Uint32(b[wcSrcQP:]))
	wc.PKeyIndex = ne.Uint16(b[wcPKeyIx:])
	wc.SLID = ci.LID(ne.Uint16(b[wcSLID:]))
	wc.SL, wc.PathBits = ci.SL(b[wcSL]), b[wcPathBits]
	wc.EECN = ci.EECN(ne.Uint32(b[wcEECN:]))
	wc.EtherType = ne.Uint16(b[wcEtherType:])
}

// Resize moves the unread completions to new storage. No other method may run at the same time.
func (r *completionRing) Resize(size int) error {
	const verb = "CQ.Resize"
	if size < 1 || size > maxDepth {
		return bad(verb, ci.InvalidCQSize, "size %d, want 1 to %d", size, maxDepth)
	}
	n := (r.shown.Load() - r.get) & r.q.mask
	if int(n) > size {
		return bad(verb, ci.Overflow, "%d completions wait, %d would fit", n, size)
	}
	slots, shift := geometry(size, wcSize)
	if slots == int(r.q.mask)+1 {
		return nil
	}
	q := newQueue(alignedBytes(queueSize(slots, shift)), slots, shift)
	contexts := make([]any, slots)
	for i := range n {
		from := (r.get + i) & r.q.mask
		copy(q.slot(i), r.q.slot(from))
		contexts[i] = r.contexts[from]
	}
	*q.prod = n
	r.q, r.contexts = q, contexts
	r.put, r.get = n, 0
	r.shown.Store(n)
	r.taken.Store(0)
	return nil
}
