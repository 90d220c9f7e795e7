package schema

import "ciddk/ci"

// MR is a request that names an MR.
type MR struct {
	MR Handle `handle:"mr"`
}

// Memory is a range of the client's memory.
//
// With Shared, the message carries a descriptor of a memfd, and the range is Length bytes at FileOffset of it; Addr is
// its address in the client. The memfd must be sealed against growing and shrinking. Without Shared, the daemon reaches
// the range by cross-memory copies at Addr, or the client copies for it; see ServeCopies. FileOffset is then a number
// that the client chose, which Copy contains.
type Memory struct {
	Addr       uint64
	Length     uint64
	FileOffset uint64
	IOVA       uint64
	Access     ci.Access
	Shared     bool
	Pad        [3]uint8
}

// RegisterMR registers memory of the client.
type RegisterMR struct {
	PD     Handle `handle:"pd"`
	Memory Memory
}

// RegisterSMR registers the pages of a region a second time.
type RegisterSMR struct {
	PD       Handle `handle:"pd"`
	MR       Handle `handle:"mr"`
	IOVA     uint64
	Access   ci.Access
	Reserved uint32
}

// RegionReply contains a region: that of a new MR, or after a modification.
type RegionReply struct {
	Handle Handle
	Region Region
}

// Region is ci.Region.
type Region struct {
	Addr, Length uint64
	LKey, RKey   ci.Key
}

// QueryMRReply is ci.MRAttr, except for the PD, which the client knows.
type QueryMRReply struct {
	Region             Region
	LocalLo, LocalHi   uint64
	RemoteLo, RemoteHi uint64
	Access             ci.Access
	Reserved           uint32
}

// ModifyMR changes a region.
type ModifyMR struct {
	MR     Handle `handle:"mr"`
	PD     Handle `handle:"pd,optional"`
	Memory Memory
	Set    uint32 `max:"255"`
	Pad    uint32
}

// MW is a request that names an MW.
type MW struct {
	MW Handle `handle:"mw"`
}

// CreateMW creates a memory window.
type CreateMW struct {
	PD   Handle `handle:"pd"`
	Type uint32 `max:"255"`
	Pad  uint32
	User UserBuffer
}

// WindowReply contains the key of a window, and the handle of a new one.
type WindowReply struct {
	Handle Handle
	Key    ci.Key
	Type   uint32
	User   UserBufferReply
}

// BindMW posts the bind of a window of type 1.
type BindMW struct {
	QP    Handle `handle:"qp"`
	ID    uint64
	Bind  Bind
	Flags ci.SendFlags
	Pad   uint32
}

// Bind is ci.MWBind. Handles that are zero are passed on as nil, for the driver's status.
type Bind struct {
	MW     Handle `handle:"mw,optional"`
	MR     Handle `handle:"mr,optional"`
	Addr   uint64
	Length uint64
	Key    ci.Key
	Access ci.Access
}
