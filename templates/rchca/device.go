package rchca

import "ciddk/ci"

// Device is the hardware: all that a vendor fills in. The driver around it has checked every argument already, so a Device judges nothing
// that a consumer said, with one exception: keys, bounds and rights of memory are checked by the hardware at each access.
//
// Methods may be called concurrently, except that one QP's WriteSend and RingSend, and its WriteRecv and RingRecv, come from one goroutine at
// a time. A command to firmware has a time limit of its own; its error becomes ci.Timeout. The methods of the data path, from WriteSend
// on, are writes to memory and doorbells: they neither fail, block nor allocate.
type Device interface {
	// Info is constant. It is asked before Start.
	Info() Info
	// Start lets the hardware run; interrupts go to h. Close stops it: no interrupt is served any more when it returns. Idempotent.
	Start(h Handler) error
	Close() error

	// Map enters a region into the translation and protection table and gives its key. When Unmap returns, the hardware
	// does not touch the region any more.
	Map(r Region) (ci.Key, error)
	Unmap(k ci.Key) error

	CreateCQ(size int) (CQN, error)
	DestroyCQ(n CQN) error

	// CreateQP makes a queue pair in Reset. Its number is not the number of another QP, nor that of one gone a short time ago.
	CreateQP(c QPConfig) (ci.QPN, error)
	// ModifyQP carries out a transition, or a change in place, that the driver has found legal. To Reset: both queues are emptied without
	// completions. To Error: they are flushed, each entry with ci.WCFlushErr.
	ModifyQP(n ci.QPN, set ci.QPField, a *ci.QPAttr) error
	// QPState is the state as the hardware sees it: it enters QPError by itself, and leaves QPSQDraining for QPSQD.
	QPState(n ci.QPN) ci.QPState
	// DestroyQP ends a QP in any state. Entries that it has in CQs stay there.
	DestroyQP(n ci.QPN) error

	// WriteSend encodes a request into slot of the send queue, WriteRecv one of the receive queue. Slots count from 0 up and wrap at the
	// depth. What the hardware needs of the request is copied.
	WriteSend(n ci.QPN, slot int, wr *ci.SendWR)
	WriteRecv(n ci.QPN, slot int, wr *ci.RecvWR)
	// RingSend and RingRecv hand over the next count slots.
	RingSend(n ci.QPN, count int)
	RingRecv(n ci.QPN, count int)

	// ReadCQ moves entries out of a completion queue, oldest first.
	ReadCQ(n CQN, e []CQE) int
	// ArmCQ arms one interrupt for the next entry that is added. An entry that is added after ArmCQ has begun and fits causes
	// it, always; one that was there before never does. NotifyNext on top of NotifySolicited wins, the reverse changes nothing.
	ArmCQ(n CQN, when ci.Notify)
}

// Handler takes the hardware's interrupts. Its methods do not block.
type Handler interface {
	Completion(n CQN)
	CQError(n CQN) // an entry did not fit; the QPs that use the queue are in Error
	QPEvent(n ci.QPN, t ci.EventType)
	PortEvent(t ci.EventType)
}

// CQN names a completion queue of the device.
type CQN uint32

// Info is the identity of a device and its limits.
type Info struct {
	GUID                               ci.GUID
	VendorID                           uint32
	DeviceID, Revision                 uint16
	MaxPDs, MaxCQs, MaxCQEs            int
	MaxQPs, MaxWRs, MaxSGEs, MaxInline int
	MaxMRs                             int
	MaxReads                           int // RDMA reads at once, in either direction, per QP
	PageSize                           uint64
	Port                               ci.PortAttr
}

// Region is an entry of the protection table.
type Region struct {
	PD     uint32
	Addr   uint64 // address of the first byte in requests
	Access ci.Access
	Pieces [][]byte // the bytes, in order; hardware takes their bus addresses from the IOMMU
}

// QPConfig is what hardware needs to know of a new queue pair.
type QPConfig struct {
	PD             uint32
	Caps           ci.QPCaps
	SignalAll      bool
	SendCQ, RecvCQ CQN
}

// CQE is a completion queue entry.
type CQE struct {
	QPN       ci.QPN
	Recv      bool
	Slot      int // of the request; all earlier requests of a send queue are done, too
	Status    ci.WCStatus
	Op        ci.WCOp
	Length    uint32 // of a receive or a read
	Immediate bool
	Imm       uint32
}
