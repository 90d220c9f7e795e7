package rvt

import "ciddk/ci"

// The engine is independent of queue layouts: it takes decoded work from sources and appends completions to a ring.
// What a consumer can write to, such as a ring in shared memory, is decoded once into a private copy and never read
// again. Only payload may be read in place, since no value of it can do harm.

// Work is one decoded request of a send queue. It belongs to the engine. SGL and Inline refer to storage that the
// source keeps unchanged until Retire. SGL must be private memory. Inline may be the ring itself.
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
	FromQP1 bool   // a UD QP sends in the name of QP1, with its number, its Q_Key and PKeyIx; not for other processes
	IsInl   bool   // Inline counts (it may be empty), not SGL
	Bad     ci.WCStatus
	Flush   ci.Flush // OpFlush only
	Offload Offload  // of a datagram, or nil
	Length  uint64   // bytes of SGL or Inline together; filled in by the engine
}

// WorkExt holds what few requests need. The ring has resolved the objects and copied the lists when the request was
// posted.
type WorkExt struct {
	MW   *MW
	MR   *MR
	Bind ci.MWBind
	// ByKey reports that an OpBindMW names its objects by keys: any key of the window, or the current one if it is of
	// type 1, and the L_Key of the region. MW and MR are nil. Another process posted the request.
	// An OpFastReg names its region by FastReg.Key, and its storage is Storage instead of FastReg.Pages.
	ByKey bool
	// NewKeyOnly reports that a request with ByKey names a window by the key that the window gets, as the requests of
	// adapters do. MWKey is not used. The key before the bind is not compared with the current one.
	NewKeyOnly   bool
	Storage      ci.Memory
	MWKey, MRKey ci.Key
	FastReg      ci.FastReg // Pages is private
	Raw          ci.Raw
	LSO          ci.LSO // Header is private
}

// WorkSource is the consumer side of a send queue.
type WorkSource interface {
	// Next decodes the oldest request that has not been decoded into w, whose SGL has room for the SGE limit of the
	// queue. It sets every field but Length. It leaves w unchanged and reports false if there is none. An invalid
	// request has Bad set (WCLocalOpErr), and the engine completes it so, in order.
	Next(w *Work) bool
	// Retire frees the slots of the n oldest requests, which are complete.
	Retire(n int)
}

// SendRing is a send queue whose producer is in this process.
type SendRing interface {
	WorkSource
	// Post appends requests that the engine has validated, and returns how many found room. The engine serialises
	// calls.
	Post(wrs []ci.SendWR, obj Resolver) int
	// Reset empties the queue.
	Reset()
	// Depth is the number of requests that find room.
	Depth() int
	// Len is the number of requests posted and not retired.
	Len() int
}

// Resolver returns the objects of the engine behind those of the consumer, which may be wrapped. The engine has checked
// that they are its own.
type Resolver interface {
	AV(ci.AV) *AV
	MW(ci.MW) *MW
	MR(ci.MR) *MR
}

// RecvWork is one receive buffer, decoded.
type RecvWork struct {
	ID  uint64
	SGL []ci.SGE // private; capacity for the queue's SGE limit
	Bad bool     // invalid: the engine completes it with WCLocalOpErr
}

// RecvSource is the consumer side of a receive queue or SRQ. A slot is free again as soon as it is decoded.
type RecvSource interface {
	Next(w *RecvWork) bool
}

// RecvBatch is an optional interface of a RecvRing. Take is Next, except that the slots need not be free before
// Release. The engine calls Release before the consumer can learn that anything was taken. That saves a memory barrier
// for each buffer.
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
	// Resize changes the depth and keeps what is posted. It fails with ci.InvalidMaxWRs if that does not fit.
	Resize(depth int) error
}

// CompletionSink is the producer side of a completion queue. The engine serialises calls.
type CompletionSink interface {
	// Put appends a completion. It reports false if the queue is full.
	Put(wc *ci.WC) bool
}

// CompletionBatch is an optional interface of a CompletionRing. Stage is Put, except that the entry need not be visible
// before Publish, which the engine calls before it lets others put.
type CompletionBatch interface {
	Stage(wc *ci.WC) bool
	Publish()
}

// CompletionRing is a completion queue whose consumer is in this process. The engine serialises Put against Put, Get
// against Get; Put may run concurrently with Get and with Len. Resize excludes all of them.
type CompletionRing interface {
	CompletionSink
	Get(wcs []ci.WC) int
	Len() int
	Cap() int
	// Resize changes the size and keeps the entries and their order. It fails with ci.Overflow if they do not fit.
	Resize(size int) error
}

// Rings creates queues. Sizes are minima, which a driver may round up; a depth may be 0. ub is nil for a consumer in
// this process.
type Rings interface {
	SendRing(depth, sge, inline int, ub *ci.UserBuffer) (SendRing, error)
	RecvRing(depth, sge int, ub *ci.UserBuffer) (RecvRing, error)
	CompletionRing(size int, ub *ci.UserBuffer) (CompletionRing, error)
}
