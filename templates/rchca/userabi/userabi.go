// Package userabi is the layout of the private data between the driver, which runs in the daemon, and its user library,
// which runs in the processes of applications. Both import it. The layers between them copy the data and do not
// interpret them. [SAS-2.4-05 … -09, -17]
//
// Add the fields of your hardware to Request and Answer, with fixed sizes and offsets in the byte order of Order, and
// increase Revision. A request comes from a process that is not trusted: Decode checks all of it, once, in a copy.
package userabi

import (
	"encoding/binary"
	"fmt"
)

// LibraryName is HCAInfo.Library and UserLibrary.Name, by which the user access layer finds the library.
const LibraryName = "rchca-userlib"

// Command is UserBuffer.Command of every request of the library. A process without the library has 0 there. Replace it
// by a number of your own.
const Command uint32 = 0x72636863

// Revision is the revision of the layouts. The driver rejects requests of another one.
const Revision uint32 = 2

// Sizes of the encoded records, in bytes.
const (
	RequestSize = 8
	AnswerSize  = 24
)

// Order is the byte order of the records.
var Order = binary.LittleEndian

// A Request is what the library sends with a create, in UserBuffer.In:
//
//	0  uint32  Revision
//	4  uint32  flags; none is defined, so 0
//
// If the library allocates queues in memory of the process, their addresses and lengths belong here. The driver reaches
// them with ci.Process.Memory. [SAS-2.4-03, -09]
type Request struct{}

// Encode returns the bytes of r.
func (r Request) Encode() []byte {
	b := make([]byte, RequestSize)
	Order.PutUint32(b, Revision)
	return b
}

// Decode checks a request.
func (r *Request) Decode(b []byte) error {
	switch {
	case len(b) != RequestSize:
		return fmt.Errorf("a request has %d bytes, not %d", RequestSize, len(b))
	case Order.Uint32(b) != Revision:
		return fmt.Errorf("revision %d of the user library, want %d (install the library that belongs to the driver)",
			Order.Uint32(b), Revision)
	case Order.Uint32(b[4:]) != 0:
		return fmt.Errorf("flags %#x are not defined", Order.Uint32(b[4:]))
	}
	return nil
}

// An Answer is what the driver returns for a create, in UserBuffer.Out:
//
//	0  uint32  Revision
//	4  uint32  Number
//	8  uint64  Offset
//	16 uint32  Slots
//	20 uint16  SGEs
//	22 uint16  Inline
//
// Offset and what follows describe the queue of the object in the memory that the driver shares with the process:
// package queues has the layout. The descriptors of the memory and of the doorbell are in UserBuffer.OutFiles of
// CA.OpenUser. [SAS-2.4-14]
type Answer struct {
	Number       uint32 // of the object in the hardware; 0 for a CA
	Offset       uint64 // of the send queue or the CQ; 0 if the object has no queue in shared memory
	Slots        uint32
	SGEs, Inline uint16 // of the send queue
}

// Encode returns the bytes of a.
func (a Answer) Encode() []byte {
	b := make([]byte, AnswerSize)
	Order.PutUint32(b, Revision)
	Order.PutUint32(b[4:], a.Number)
	Order.PutUint64(b[8:], a.Offset)
	Order.PutUint32(b[16:], a.Slots)
	Order.PutUint16(b[20:], a.SGEs)
	Order.PutUint16(b[22:], a.Inline)
	return b
}

// Decode reads an answer.
func (a *Answer) Decode(b []byte) error {
	switch {
	case len(b) != AnswerSize:
		return fmt.Errorf("an answer has %d bytes, not %d", AnswerSize, len(b))
	case Order.Uint32(b) != Revision:
		return fmt.Errorf("revision %d of the driver, want %d", Order.Uint32(b), Revision)
	}
	*a = Answer{Number: Order.Uint32(b[4:]), Offset: Order.Uint64(b[8:]), Slots: Order.Uint32(b[16:]),
		SGEs: Order.Uint16(b[20:]), Inline: Order.Uint16(b[22:])}
	return nil
}
