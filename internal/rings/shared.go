package rings

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/rvt"
)

// Queues whose two sides are in different processes. The adapter's process creates them in memory that it shares
// (NewShared…). The application's process opens them there (Open…). Their layout is that of the other queues of this
// package. A send queue and a completion queue are preceded by ControlSize bytes, with a word that one side writes and
// the other reads.
//
// Each side trusts only its own index. It reads the other side's index from the shared bytes and masks it. A wrong
// index makes it process slots with arbitrary contents, and the contents of all slots are checked.
//
// # Memory order
//
// A side fills slots with plain stores and then stores its index with sequential consistency. The other side loads the
// index before it reads slots. The same holds for the control words: if one side changes a word and then loads an
// index, and the other stores an index and then loads the word, at least one of them sees the other's store.

// ControlSize is the number of bytes of control words in front of a queue.
const ControlSize = 64

// Shape is the geometry of a queue in shared memory.
type Shape struct {
	Slots uint32 // a power of two; one less than Slots elements fit
	Shift uint32 // log2 of the bytes of a slot
	SGE   uint32 // scatter/gather entries per request; 0 for completions
	Data  uint32 // bytes of inline data per request; send queues only
}

// Bytes returns the number of bytes of the queue, without control words.
func (s Shape) Bytes() int { return queueSize(int(s.Slots), uint8(s.Shift)) }

// ok reports whether a queue of the shape, with slots of at least least bytes, can be opened over n bytes.
func (s Shape) ok(least uint64, n int) bool {
	if s.Slots < 1 || s.Slots > 2*maxDepth || s.Slots&(s.Slots-1) != 0 || s.Shift > 16 || s.SGE > maxSGE ||
		s.Data > maxInline {
		return false
	}
	return least <= 1<<s.Shift && uint64(offData)+uint64(s.Slots)<<s.Shift <= uint64(n)
}

// SendShape returns the shape of a send queue for depth requests, or the error of the verb.
func SendShape(depth, sge, inline int) (Shape, error) {
	if err := checkSend(depth, sge, inline, nil); err != nil {
		return Shape{}, err
	}
	slots, shift := sendGeometry(depth, sge, inline)
	return Shape{uint32(slots), uint32(shift), uint32(sge), uint32(inline)}, nil
}

// RecvShape returns the shape of a receive queue.
func RecvShape(depth, sge int) (Shape, error) {
	if err := check("PD.CreateQP", depth, sge, nil); err != nil {
		return Shape{}, err
	}
	slots, shift := recvGeometry(depth, sge)
	return Shape{uint32(slots), uint32(shift), uint32(sge), 0}, nil
}

// CompletionShape returns the shape of a completion queue.
func CompletionShape(size int) (Shape, error) {
	if size < 1 || size > maxDepth {
		return Shape{}, bad("PD.CreateCQ", ci.InvalidCQSize, "size %d, want 1 to %d", size, maxDepth)
	}
	slots, shift := geometry(size, wcSize)
	return Shape{uint32(slots), uint32(shift), 0, 0}, nil
}

// errShared is the error of a resize.
func errShared(verb string) error {
	return bad(verb, ci.InsufficientResources, "the process's user library does not take part in the resize")
}

// SharedSend is a send queue whose producer is another process. It implements rvt.SharedSendRing and rvt.FreedRing.
type SharedSend struct {
	sendRing
	state *uint32
	free  func()
}

// NewSharedSend creates a send queue over b, which has ControlSize bytes more than the shape. vector returns the
// address vector with a number, or nil. free releases b.
func NewSharedSend(b []byte, s Shape, vector func(uint32) *rvt.AV, free func()) *SharedSend {
	return newSharedSend(word(b, 0), b[ControlSize:], s, vector, free)
}

// NewPlainSend is NewSharedSend without control words in b: the producer is a library that does not read them.
func NewPlainSend(b []byte, s Shape, vector func(uint32) *rvt.AV, free func()) *SharedSend {
	return newSharedSend(new(uint32), b, s, vector, free)
}

func newSharedSend(state *uint32, b []byte, s Shape, vector func(uint32) *rvt.AV, free func()) *SharedSend {
	r := &SharedSend{state: state, free: free}
	r.q = newQueue(b, int(s.Slots), uint8(s.Shift))
	r.sge, r.inline, r.vector = s.SGE, s.Data, vector
	return r
}

// Next decodes the oldest request. It returns false if there is none, or if all slots hold requests that are decoded
// and not retired, whatever the producer's index is.
func (r *SharedSend) Next(w *rvt.Work) bool {
	if r.next == r.seen {
		if r.seen = r.q.producer(); r.next == r.seen {
			return false
		}
	}
	if (r.next-r.tail)&r.q.mask == r.q.mask {
		return false
	}
	r.decode(w)
	return true
}

// Post accepts no requests, because the producer is another process.
func (r *SharedSend) Post([]ci.SendWR, rvt.Resolver) int { return 0 }

// Len returns the number of requests that are not retired, according to the producer's index.
func (r *SharedSend) Len() int { return int((r.q.producer() - r.tail) & r.q.mask) }

// SetState implements rvt.SharedSendRing.
func (r *SharedSend) SetState(s ci.QPState) { atomic.StoreUint32(r.state, uint32(s)) }

// Discard implements rvt.DiscardedRing. It moves the consumer's index, not the producer's, which a post in progress may
// be about to change.
func (r *SharedSend) Discard() {
	r.seen = r.q.producer()
	r.next = r.seen
	r.Retire(int(r.q.mask))
}

// Free implements rvt.FreedRing.
func (r *SharedSend) Free() { r.free() }

// SharedRecv is a receive queue whose producer is another process. It implements rvt.RecvRing and rvt.FreedRing.
type SharedRecv struct {
	recvRing
	free func()
}

// NewSharedRecv creates a receive queue over b.
func NewSharedRecv(b []byte, s Shape, free func()) *SharedRecv {
	return &SharedRecv{recvRing{q: newQueue(b, int(s.Slots), uint8(s.Shift)), sge: s.SGE}, free}
}

// Post accepts no requests, because the producer is another process.
func (r *SharedRecv) Post([]ci.RecvWR) int { return 0 }

// Resize fails: Move changes the size.
func (r *SharedRecv) Resize(int) error { return errShared("SRQ.Modify") }

// Move moves the posted receives to a new queue over b, whose free function replaces that of the old queue, which is
// called. No other method may run at the same time. It fails with ci.InvalidMaxWRs if the receives do not fit.
func (r *SharedRecv) Move(b []byte, s Shape, free func()) error {
	n := (r.q.producer() - r.next) & r.q.mask
	if n >= s.Slots {
		return bad("SRQ.Modify", ci.InvalidMaxWRs, "%d receives are posted, %d would fit", n, s.Slots-1)
	}
	r.q, r.next = r.q.move(b, s, r.next, n), 0
	r.posted = n
	r.free()
	r.free = free
	return nil
}

// move copies n elements from index first on to a new queue over b, which has slots of the same size.
func (q *queue) move(b []byte, s Shape, first, n uint32) queue {
	to := newQueue(b, int(s.Slots), uint8(s.Shift))
	for i := range n {
		copy(to.slot(i), q.slot((first+i)&q.mask))
	}
	atomic.StoreUint32(to.prod, n)
	return to
}

// Free implements rvt.FreedRing.
func (r *SharedRecv) Free() { r.free() }

// The states of the word of a completion queue: how its consumer has armed it.
const (
	armedNone = iota
	armedSolicited
	armedNext
)

// SharedCompletion is a completion queue whose consumer is another process. It implements rvt.SharedCompletionRing,
// rvt.CompletionBatch and rvt.FreedRing.
type SharedCompletion struct {
	q     queue
	put   uint32
	shown atomic.Uint32 // put as of Publish, for Len, which another goroutine than the producer may call
	freed uint32        // the consumer's index when it was last read, which is when the queue appears full
	arm   *uint32
	plain bool // the memory has no control words
	free  func()
}

// NewSharedCompletion creates a completion queue over b, which has ControlSize bytes more than the shape.
func NewSharedCompletion(b []byte, s Shape, free func()) *SharedCompletion {
	r := &SharedCompletion{q: newQueue(b[ControlSize:], int(s.Slots), uint8(s.Shift)), arm: word(b, 0), free: free}
	atomic.StoreUint32(r.arm, armedNone)
	return r
}

// NewPlainCompletion is NewSharedCompletion without control words in b: the consumer arms the queue by CQ.Notify only.
func NewPlainCompletion(b []byte, s Shape, free func()) *SharedCompletion {
	return &SharedCompletion{q: newQueue(b, int(s.Slots), uint8(s.Shift)), arm: new(uint32), plain: true, free: free}
}

// Stage writes one completion. Whether the queue is full follows from the consumer's index. A consumer with a wrong
// index loses only its own completions.
func (r *SharedCompletion) Stage(wc *ci.WC) bool {
	next := (r.put + 1) & r.q.mask
	if next == r.freed {
		if r.freed = r.q.consumer(); next == r.freed {
			return false
		}
	}
	encodeWC(r.q.slot(r.put), wc)
	r.put = next
	return true
}

// Publish makes the staged completions visible to the consumer.
func (r *SharedCompletion) Publish() {
	atomic.StoreUint32(r.q.prod, r.put)
	r.shown.Store(r.put)
}

// Put writes and publishes one completion.
func (r *SharedCompletion) Put(wc *ci.WC) bool {
	if !r.Stage(wc) {
		return false
	}
	r.Publish()
	return true
}

// Get returns no completions, because the consumer is another process.
func (r *SharedCompletion) Get([]ci.WC) int { return 0 }

// Len returns the number of unread completions, according to the consumer's index.
func (r *SharedCompletion) Len() int { return int((r.shown.Load() - r.q.consumer()) & r.q.mask) }

// Cap returns the number of completions that fit.
func (r *SharedCompletion) Cap() int { return r.q.depth() }

// Resize fails: Move changes the size.
func (r *SharedCompletion) Resize(int) error { return errShared("CQ.Resize") }

// Move moves the unread completions, according to the consumer's index, to a new queue over b, which has control words
// if the queue was made with them. The queue stays armed. free replaces the function of the old queue, which is called.
// No other method may run at the same time, in either process. It fails with ci.Overflow if the completions do not fit.
func (r *SharedCompletion) Move(b []byte, s Shape, free func()) error {
	first := r.q.consumer()
	n := (r.put - first) & r.q.mask
	if n >= s.Slots {
		return bad("CQ.Resize", ci.Overflow, "%d completions wait, %d would fit", n, s.Slots-1)
	}
	if !r.plain {
		arm := word(b, 0)
		atomic.StoreUint32(arm, atomic.LoadUint32(r.arm))
		r.arm, b = arm, b[ControlSize:]
	}
	r.q, r.put = r.q.move(b, s, first, n), n
	r.shown.Store(n)
	r.freed = 0
	r.free()
	r.free = free
	return nil
}

// Fires implements rvt.SharedCompletionRing.
func (r *SharedCompletion) Fires(solicited bool) bool {
	a := atomic.LoadUint32(r.arm)
	if a != armedNext && !(a == armedSolicited && solicited) {
		return false
	}
	return atomic.CompareAndSwapUint32(r.arm, a, armedNone)
}

// Free implements rvt.FreedRing.
func (r *SharedCompletion) Free() { r.free() }

// UserSend is the application's side of a send queue in shared memory: its producer. The caller serialises calls of
// Post and Reset.
type UserSend struct {
	sendRing
	state *uint32
}

// Names returns the numbers and keys by which a request in shared memory names objects, which the caller of Post has
// validated.
type Names interface {
	Vector(ci.AV) uint32 // the number of UserAV; 0: none
	Window(ci.MW) ci.Key // its current key
	Region(ci.MR) ci.Key // its L_Key
}

// OpenSend opens the send queue that NewSharedSend made over b. ok is false if the shape does not fit b.
func OpenSend(b []byte, s Shape, names Names) (*UserSend, bool) {
	least := sqSGE + max(uint64(s.SGE)*sgeSize, uint64(s.Data), ci.AtomicWriteSize)
	if len(b) < ControlSize || !s.ok(least, len(b)-ControlSize) {
		return nil, false
	}
	u := &UserSend{state: word(b, 0)}
	u.q = openQueue(b[ControlSize:], s)
	u.sge, u.inline, u.names = s.SGE, s.Data, names
	return u, true
}

// Post writes and publishes requests, which the caller has validated. It returns how many the queue had room for.
func (u *UserSend) Post(wrs []ci.SendWR) int {
	room := (u.seen - u.post - 1) & u.q.mask
	if uint64(room) < uint64(len(wrs)) {
		u.seen = u.q.consumer()
		room = (u.seen - u.post - 1) & u.q.mask
	}
	n := 0
	for n < len(wrs) && uint32(n) < room {
		w := &wrs[n]
		if len(w.SGL) > int(u.sge) || len(w.Inline) > int(u.inlineOf(w.Op)) {
			break
		}
		u.encode(w, nil)
		u.post = (u.post + 1) & u.q.mask
		n++
	}
	if n > 0 {
		atomic.StoreUint32(u.q.prod, u.post)
	}
	return n
}

// State returns the state of the QP.
func (u *UserSend) State() ci.QPState { return ci.QPState(atomic.LoadUint32(u.state)) }

// Reset empties the queue after the QP has gone to Reset.
func (u *UserSend) Reset() { u.post, u.seen = 0, 0 }

// Posted returns the number of requests that were posted since the last Reset, modulo the number of slots.
func (u *UserSend) Posted() uint32 { return u.post }

// IsRetired reports whether the request that was posted when Posted had returned at is complete. It was posted less
// than a full round of the queue ago.
func (u *UserSend) IsRetired(at uint32) bool {
	return (u.post-at-1)&u.q.mask >= (u.post-u.q.consumer())&u.q.mask
}

// UserRecv is the application's side of a receive queue in shared memory: its producer. The caller serialises calls.
type UserRecv struct{ recvRing }

// OpenRecv opens the receive queue that NewSharedRecv made over b. ok is false if the shape does not fit b.
func OpenRecv(b []byte, s Shape) (*UserRecv, bool) {
	if !s.ok(rqSGE+uint64(s.SGE)*sgeSize, len(b)) {
		return nil, false
	}
	u := &UserRecv{recvRing{q: openQueue(b, s), sge: s.SGE}}
	u.post = u.q.producer() // not 0 in a queue that has moved
	return u, true
}

// Reset empties the queue after the QP has gone to Reset.
func (u *UserRecv) Reset() { u.post, u.freed = 0, 0 }

// UserCompletion is the application's side of a completion queue in shared memory: its consumer. The caller serialises
// calls of Get; the other methods may be called concurrently.
type UserCompletion struct {
	q   queue
	get atomic.Uint32
	arm *uint32
}

// OpenCompletion opens the completion queue that NewSharedCompletion made over b. ok is false if the shape does not fit
// b.
func OpenCompletion(b []byte, s Shape) (*UserCompletion, bool) {
	if len(b) < ControlSize || !s.ok(wcSize, len(b)-ControlSize) {
		return nil, false
	}
	return &UserCompletion{q: openQueue(b[ControlSize:], s), arm: word(b, 0)}, true
}

// Len returns the number of unread completions.
func (u *UserCompletion) Len() int { return int((u.q.producer() - u.get.Load()) & u.q.mask) }

// Get reads up to len(wcs) completions, without their contexts, and frees their slots at once.
func (u *UserCompletion) Get(wcs []ci.WC) int {
	n := min(u.Len(), len(wcs))
	if n == 0 {
		return 0
	}
	i := u.get.Load()
	for k := range n {
		wcs[k].Context = nil
		decodeWC(&wcs[k], u.q.slot(i))
		i = (i + 1) & u.q.mask
	}
	u.get.Store(i)
	atomic.StoreUint32(u.q.cons, i)
	return n
}

// Arm arms the queue. It never replaces NotifyNext by NotifySolicited.
func (u *UserCompletion) Arm(when ci.Notify) {
	if when == ci.NotifyNext {
		atomic.StoreUint32(u.arm, armedNext)
		return
	}
	atomic.CompareAndSwapUint32(u.arm, armedNone, armedSolicited)
}

// openQueue returns a queue over bytes that another process has initialised. It reads nothing of its header.
func openQueue(b []byte, s Shape) queue {
	return queue{data: b[offData:queueSize(int(s.Slots), uint8(s.Shift))], prod: word(b, offProducer),
		cons: word(b, offConsumer),
		mask: s.Slots - 1, shift: uint8(s.Shift)}
}
