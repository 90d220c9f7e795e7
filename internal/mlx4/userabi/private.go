package userabi

import (
	"encoding/binary"
	"fmt"
)

// LibraryName is the name of the user library.
const LibraryName = "mlx4"

// Command is the command of all private data of the library.
const Command = 0x34786c6d

// Limits of a process.
const (
	MaxQPs = 1 << 10 // and CQs
	// DoorbellCQ is the doorbell of the first CQ. The doorbells of QPs begin with 0.
	DoorbellCQ = MaxQPs
)

// Open describes the context of a process: the answer to OpenCA.
type Open struct {
	Size        uint64 // bytes of the shared memory
	Caps        uint64 // of the adapter
	MaxReadSGEs uint32
	Atomicity   uint32
	CQEShift    uint32 // log2 of the bytes of a completion
}

// CQ describes a completion queue: the answer to CreateCQ, and to a Resize that moves the queue.
type CQ struct {
	Offset   uint64 // in the shared memory
	Number   uint32 // in the adapter
	Doorbell uint32 // in the Header
	Log      uint32 // log2 of the entries
}

// SRQ describes a shared receive queue: the answer to CreateSRQ.
type SRQ struct {
	Offset     uint64
	Log, Shift uint32 // log2 of the slots, and of the bytes of each
	MaxSGE     uint32
}

// QP describes the queues of a QP: the answer to CreateQP.
type QP struct {
	Offset              uint64
	Size                uint64 // bytes of both queues
	Number              uint32 // in the adapter
	Doorbell            uint32 // of the send queue
	SendLog, SendShift  uint32
	RecvLog, RecvShift  uint32
	SendAt, RecvAt      uint32 // in the memory of the queues
	HasRecv             uint32 // 0: there is no receive queue
	SendDepth, SendSGE  uint32
	RecvDepth, RecvSGE  uint32
	MaxInline, Reserved uint32
}

// AV describes an address vector: the answer to CreateAV and ModifyAV.
type AV struct {
	Address [AddressSize]byte // queue.Address
	Port    uint8
	IsBad   uint8 // 1: requests with it complete with an error
}

// AddressSize is the size of a queue.Address.
const AddressSize = 40

// Sizes of answers.
var (
	OpenSize = binary.Size(Open{})
	CQSize   = binary.Size(CQ{})
	SRQSize  = binary.Size(SRQ{})
	QPSize   = binary.Size(QP{})
	AVSize   = binary.Size(AV{})
)

// An Answer is one of the structures of this package.
type Answer interface{ Open | CQ | SRQ | QP | AV }

// Encode returns the bytes of an answer.
func Encode[T Answer](a *T) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, a)
	if err != nil {
		panic(err) // all fields have fixed sizes
	}
	return b
}

// Decode sets a from the bytes of an answer.
func Decode[T Answer](b []byte, a *T) error {
	if want := binary.Size(a); len(b) != want {
		return fmt.Errorf("userabi: an answer of %d bytes, want %d", len(b), want)
	}
	_, err := binary.Decode(b, binary.LittleEndian, a)
	return err
}
