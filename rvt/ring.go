package rvt

import "ciddk/ci"

// The engine knows no queue layout: it pulls decoded work from sources and pushes completions into a ring. What the
// consumer can write to (a ring in shared memory) is decoded once, into the engine's own copy, and never read again;
// only payload bytes may be read in place, since no value of them can do harm.

// Work is one request of a send queue, decoded. The engine owns it: SGL and Inline refer to storage that the source
// keeps unchanged until Retire (SGL must be private memory, Inline may be the ring itself).
type Work struct {
	ID      uint64
	SGL     []ci.SGE
	Inline  []byte
	Remote  ci.Remote
	Compare uint64 // or the addend
	Swap    uint64
	AV      *AV // datagrams
	Ext     *WorkExt
	DestQP  ci.QPN
	QKey    ci.QKey
	Imm     uint32
	Inv     ci.Key
	Flags   ci.SendFlags
	Op      ci.SendOp
	PKeyIx  uint16 // QP1
	IsInl   bool   // Inline counts (it may be empty), not SGL
	Bad     ci.WCStatus
	Length  uint64 // bytes of SGL or Inline together; filled in by the engine
}

// WorkExt holds what few requests need. The objects have been recovered and copied at post.
type WorkExt struct {
	MW      *MW
	MR      *MR
	Bind    ci.MWBind
	FastReg ci.FastReg // Pages is private
	Raw     ci.Raw
	LSO     ci.LSO // Header is private
}

// WorkSource is the consumer side of a send queue.
type WorkSource interface {
	// Next decodes the oldest request not decoded yet into w, whose SGL has room for the queue's SGE limit: it sets
	// every field but Length, and leaves w alone and reports false when there is none. A request that makes no sense
	// comes with Bad set (WCLocalOpErr): the engine completes it so, in order.
	Next(w *Work) bool
	// Retire says that the n oldest requests are complete: their slots may be used again.
	Retire(n int)
}

// SendRing is a send queue whose producer is in this process.
type SendRing interface {
	WorkSource
	// Post appends requests that the engine has found legal, and returns how many found room. Calls are serialised by
	// the engine.
	Post(wrs []ci.SendWR, obj Resolver) int
	// Reset forgets everything.
	Reset()
	// Depth is the number of requests that find room.
	Depth() int
	// Len is the number of requests posted and not retired.
	Len() int
}

// Resolver recovers the engine's objects from those of the consumer, wrapped or not. The engine has checked that they
// are its own.
type Resolver interface {
	AV(ci.AV) *AV
	MW(ci.MW) *MW
	MR(ci.MR) *MR
}

// RecvWork is one receive buffer, decoded.
type RecvWork struct {
	ID  uint64
	SGL []ci.SGE // private; capacity for the queue's SGE limit
	Bad bool     // makes no sense: complete it with WCLocalOpErr
}

// RecvSource is the consumer side of a receive queue or SRQ. Slots are free again as soon as they are decoded.
type RecvSource interface {
	Next(w *RecvWork) bool
}

// RecvBatch is what a RecvRing may have beside Next: Take is Next, but what it takes need not be free again before
// Release, which the engine calls before the consumer can learn that anything was taken. It saves a memory barrier per
// buffer.
type RecvBatch interface {
	Take(w *RecvWork) bool
	Release()
}

// RecvRing is a receive queue whose producer is in this process. The engine serialises Post against Post, and Next
// against Next; Post may run concurrently with Next.
type RecvRing interface {
	RecvSource
	Post(wrs []ci.RecvWR) int
	Reset()
	Depth() int
	Len() int
	// Resize keeps what is posted. ci.InvalidMaxWRs when it would not fit.
	Resize(depth int) error
}

// CompletionSink takes completions. Calls are serialised by the engine.
type CompletionSink interface {
	// Put appends; it reports false when the queue is full.
	Put(wc *ci.WC) bool
}

// CompletionBatch is what a CompletionRing may have beside Put: Stage is Put, but what it appends need not be visible
// before Publish, which the engine calls before it lets others put.
type CompletionBatch interface {
	Stage(wc *ci.WC) bool
	Publish()
}

// CompletionRing is a completion queue whose consumer is in this process. The engine serialises Put against Put, Get
// against Get; Put may run concurrently with Get. Resize excludes both.
type CompletionRing interface {
	CompletionSink
	Get(wcs []ci.WC) int
	Len() int
	Cap() int
	// Resize keeps the entries and their order. ci.Overflow when there are more of them than size.
	Resize(size int) error
}

// Rings makes queues. Sizes are at least what is asked; a driver may round up. ub is nil for an in-process consumer.
type Rings interface {
	SendRing(depth, sge, inline int, ub *ci.UserBuffer) (SendRing, error)
	RecvRing(depth, sge int, ub *ci.UserBuffer) (RecvRing, error)
	CompletionRing(size int, ub *ci.UserBuffer) (CompletionRing, error)
}
