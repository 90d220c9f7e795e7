package schema

// CQ is a request that names a CQ.
type CQ struct {
	CQ Handle `handle:"cq"`
}

// CreateCQ creates a completion queue. Without Completions, the client only polls; without Async, events of the queue
// are discarded.
type CreateCQ struct {
	PD          Handle `handle:"pd"`
	Token       uint64
	Completions Handle `handle:"event queue,optional"`
	Async       Handle `handle:"event queue,optional"`
	Affinity    uint64 // ci.Affinity.Mask
	Size        int32  // negative sizes are passed on, for the driver's status
	Group       uint16 // ci.Affinity.Group
	Vector      uint16 // ci.Affinity.Vector
	User        UserBuffer
}

// CreateCQReply contains the new CQ and its size.
type CreateCQReply struct {
	Handle Handle
	Size   int32 // entries, if the driver reports them; else 0
	Pad    uint32
	User   UserBufferReply
}

// QueryCQReply is ci.CQAttr.
type QueryCQReply struct {
	Period int64 // nanoseconds
	Size   int32
	Count  int32
}

// ResizeCQ changes the size.
type ResizeCQ struct {
	CQ   Handle `handle:"cq"`
	Size int32
	Pad  uint32
	User UserBuffer
}

// ResizeCQReply contains the size granted.
type ResizeCQReply struct {
	Size int32
	User UserBufferReply
}

// ModifyCQ sets moderation.
type ModifyCQ struct {
	CQ     Handle `handle:"cq"`
	Period int64  // nanoseconds
	Count  int32
	Pad    uint32
}

// Notify arms a CQ for one event.
type Notify struct {
	CQ   Handle     `handle:"cq"`
	Mode NotifyMode `max:"2"`
	N    int32      // NotifyAfter: completions
}

// NotifyMode is the kind of a Notify request.
type NotifyMode uint32

// The modes; the first two are those of ci.Notify.
const (
	NotifyNext NotifyMode = iota
	NotifySolicited
	NotifyAfter
)

// PeekReply contains the number of entries that wait.
type PeekReply struct {
	N uint32
}
