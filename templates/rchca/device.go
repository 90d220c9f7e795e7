package rchca

import (
	"errors"

	"ciddk/ci"
)

// A Device is the hardware, and the only part that a vendor writes. The driver checks all arguments of consumers before
// it calls a Device. The one exception are the keys, bounds and rights of memory, which the hardware checks at each
// access.
//
// Methods may be called concurrently, except that one goroutine at a time calls WriteSend and RingSend of a QP, and one
// calls its WriteRecv and RingRecv. A command to firmware has a time limit of its own; the driver reports its error as
// ci.Timeout. The methods of the data path, from WriteSend on, write to memory and doorbells. They do not fail, block
// or allocate.
type Device interface {
	// Info returns the identity and the limits, which are constant. It may be called before Start.
	Info() Info
	// Start starts the hardware. Interrupts go to h.
	Start(h Handler) error
	// Close stops the hardware. No interrupt is served after it returns. It is idempotent.
	Close() error

	// Map enters a region into the translation and protection table, and returns its key. It returns ErrMemory for
	// memory that the hardware cannot access. The hardware does not access the region after Unmap has returned.
	Map(r Region) (ci.Key, error)
	Unmap(k ci.Key) error

	CreateCQ(size int) (CQN, error)
	DestroyCQ(n CQN) error

	// CreateQP creates a queue pair in Reset. Its number differs from those of other QPs, and of QPs that were
	// destroyed a short time ago.
	CreateQP(c QPConfig) (ci.QPN, error)
	// ModifyQP carries out a valid transition, or changes attributes without one. A transition to Reset empties both
	// queues without completions. One to Error completes each request in them with ci.WCFlushErr.
	ModifyQP(n ci.QPN, set ci.QPField, a *ci.QPAttr) error
	// QPState returns the state in the hardware, which enters QPError by itself, and goes from QPSQDraining to QPSQD.
	QPState(n ci.QPN) ci.QPState
	// DestroyQP destroys a QP in any state. Its entries stay in the CQs.
	DestroyQP(n ci.QPN) error

	// WriteSend encodes a request into a slot of the send queue, WriteRecv into one of the receive queue. Slots count
	// up from 0 and wrap at the depth. Both copy what the hardware needs of the request.
	WriteSend(n ci.QPN, slot int, wr *ci.SendWR)
	WriteRecv(n ci.QPN, slot int, wr *ci.RecvWR)
	// RingSend and RingRecv pass the next count slots to the hardware.
	RingSend(n ci.QPN, count int)
	RingRecv(n ci.QPN, count int)

	// ReadCQ removes entries from a completion queue, oldest first, and returns their number.
	ReadCQ(n CQN, e []CQE) int
	// ArmCQ arms one interrupt. The first matching entry that is added after the begin of ArmCQ always raises it.
	// Earlier entries never do. NotifyNext replaces NotifySolicited; NotifySolicited does not replace NotifyNext.
	ArmCQ(n CQN, when ci.Notify)

	DeviceUD   // ud.go
	DeviceSRQ  // srq.go
	DeviceMW   // mw.go
	DeviceSMA  // sma.go
	DeviceUser // user.go
}

// A Handler handles the interrupts of the hardware. Its methods do not block.
type Handler interface {
	Completion(n CQN)
	CQError(n CQN) // an entry did not fit; the QPs that use the queue are in Error
	QPEvent(n ci.QPN, t ci.EventType)
	PortEvent(t ci.EventType)

	HandlerSRQ // srq.go
	HandlerSMA // sma.go
}

// A CQN is the number of a completion queue of the device.
type CQN uint32

// Info holds the identity of a device and its limits.
type Info struct {
	GUID                               ci.GUID
	VendorID                           uint32
	DeviceID, Revision                 uint16
	MaxPDs, MaxCQs, MaxCQEs            int
	MaxQPs, MaxWRs, MaxSGEs, MaxInline int
	MaxMRs                             int
	MaxAVs                             int // ud.go
	MaxSRQs                            int // srq.go
	MaxMWs                             int // mw.go
	MaxReads                           int // RDMA reads at a time, in each direction, per QP
	PageSize                           uint64
	Port                               ci.PortAttr
}

// ErrMemory is the error of Map for memory that the hardware cannot access.
var ErrMemory = errors.New("the hardware cannot access the memory")

// A Region is an entry of the protection table.
type Region struct {
	PD     uint32
	Addr   uint64 // address of the first byte in requests
	Access ci.Access
	Pieces [][]byte // the bytes, in order; hardware uses their bus addresses

	// Memory, Offset and Length are the same bytes. Pieces is nil for memory that a client process has allocated
	// itself: only copies reach it, with ReadAt and WriteAt. Hardware that needs bus addresses returns ErrMemory;
	// processes then allocate their memory with ual.NewMemory, which has Pieces.
	Memory         ci.Memory
	Offset, Length uint64
}

// A QPConfig describes a new queue pair to the hardware.
type QPConfig struct {
	PD             uint32
	Type           ci.QPType
	Caps           ci.QPCaps
	SignalAll      bool
	SendCQ, RecvCQ CQN
	SRQ            SRQN // srq.go
}

// A CQE is a completion queue entry.
type CQE struct {
	QPN       ci.QPN
	Recv      bool
	Slot      int // of the request; earlier requests of a send queue are complete, too
	Status    ci.WCStatus
	Op        ci.WCOp
	Length    uint32 // of a receive or an RDMA read
	Solicited bool   // of a receive: the sender asked for an event
	Immediate bool
	Imm       uint32

	Source // ud.go
}
