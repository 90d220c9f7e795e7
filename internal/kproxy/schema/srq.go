package schema

// SRQ is a request that names an SRQ.
type SRQ struct {
	SRQ Handle `handle:"srq"`
}

// SRQAttr is ci.SRQAttr.
type SRQAttr struct {
	MaxWR, MaxSGE, Limit int32
}

// CreateSRQ creates a shared receive queue.
type CreateSRQ struct {
	PD    Handle `handle:"pd"`
	Token uint64
	Async Handle `handle:"event queue,optional"`
	Attr  SRQAttr
	User  UserBuffer
}

// ModifySRQ changes the attributes that Set names.
type ModifySRQ struct {
	SRQ  Handle `handle:"srq"`
	Attr SRQAttr
	Set  uint32 `max:"255"`
	User UserBuffer
}
