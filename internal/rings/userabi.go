package rings

import (
	"encoding/binary"
	"fmt"
)

// The private data between the reference HCA and its user library, version 2. UserBuffer.Command is UserCommand in
// every verb of the library, and In is empty. Out is a record of little-endian integers:
//
//	record     bytes  0: u16   2: u16   8         16        24        28      32…
//	UserOpen   40     version  kind 1   u64 size  u32 QPs   u64 caps; 32: u32 SGEs of a READ; 36: u32 atomicity
//	UserCQ     40     version  kind 2   u64 off   u64 size  shape (4 × u32 from 24)
//	UserQP     72     version  kind 3   u64 off   u64 size  shape of the send queue; 40: u64 off of the receive queue,
//	                                              48: shape; 64: u32 index, 68: u32 QP number
//	UserSRQ    40     version  kind 4   as UserCQ
//	UserAV     16     version  kind 5   u32 number
//
// Bytes 4 to 7 are zero. An offset is from the start of the shared memory; a size includes control words. Of a QP with
// an SRQ, the offset of the receive queue is 0. A shape is Slots, Shift, SGE, Data. OpenUser passes two descriptors:
// the memory, and the doorbell.
const (
	UserCommand = 1
	userVersion = 2
)

// LibraryName is HCAInfo.Library of the reference HCA.
const LibraryName = "ciddk-reference-2"

// The kinds of records.
const (
	kindOpen = 1 + iota
	kindCQ
	kindQP
	kindSRQ
	kindAV
)

// The sizes of records in bytes.
const (
	UserOpenSize  = 40
	UserQueueSize = 40
	UserQPSize    = 72
	UserAVSize    = 16
)

var le = binary.LittleEndian

// UserOpen is the answer to OpenUser.
type UserOpen struct {
	Size uint64 // bytes of the shared memory
	QPs  uint32 // maximum number of QPs

	// What the rules of requests depend on: CAAttr.Caps, MaxReadSGEs and Atomicity of the HCA.
	Caps        uint64
	MaxReadSGEs uint32
	Atomicity   uint32
}

// UserQueue is the answer to CreateCQ, CreateSRQ, and the verbs that change their size.
type UserQueue struct {
	Offset, Size uint64
	Shape        Shape
}

// UserQP is the answer to CreateQP.
type UserQP struct {
	Send       UserQueue
	RecvOffset uint64 // 0 with an SRQ
	Recv       Shape
	Index      uint32 // of the QP in the header of the shared memory
	Num        uint32
}

// UserAV is the answer to CreateAV.
type UserAV struct{ Number uint32 }

// record returns a record of n bytes with its header.
func record(kind uint16, n int) []byte {
	b := make([]byte, n)
	le.PutUint16(b, userVersion)
	le.PutUint16(b[2:], kind)
	return b
}

// checkRecord validates the header of a record.
func checkRecord(b []byte, kind uint16, n int) error {
	if len(b) != n {
		return fmt.Errorf("rings: answer of %d bytes, want %d", len(b), n)
	}
	if v, k := le.Uint16(b), le.Uint16(b[2:]); v != userVersion || k != kind {
		return fmt.Errorf("rings: answer of version %d and kind %d, want %d and %d", v, k, userVersion, kind)
	}
	return nil
}

func putShape(b []byte, s Shape) {
	for i, v := range []uint32{s.Slots, s.Shift, s.SGE, s.Data} {
		le.PutUint32(b[4*i:], v)
	}
}

func getShape(b []byte) Shape {
	return Shape{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
}

// Encode returns the record.
func (u *UserOpen) Encode() []byte {
	b := record(kindOpen, UserOpenSize)
	le.PutUint64(b[8:], u.Size)
	le.PutUint32(b[16:], u.QPs)
	le.PutUint64(b[24:], u.Caps)
	le.PutUint32(b[32:], u.MaxReadSGEs)
	le.PutUint32(b[36:], u.Atomicity)
	return b
}

// Decode reads the record.
func (u *UserOpen) Decode(b []byte) error {
	if err := checkRecord(b, kindOpen, UserOpenSize); err != nil {
		return err
	}
	u.Size, u.QPs = le.Uint64(b[8:]), le.Uint32(b[16:])
	u.Caps, u.MaxReadSGEs, u.Atomicity = le.Uint64(b[24:]), le.Uint32(b[32:]), le.Uint32(b[36:])
	return nil
}

func (u *UserQueue) put(b []byte) {
	le.PutUint64(b[8:], u.Offset)
	le.PutUint64(b[16:], u.Size)
	putShape(b[24:], u.Shape)
}

func (u *UserQueue) get(b []byte) {
	u.Offset, u.Size, u.Shape = le.Uint64(b[8:]), le.Uint64(b[16:]), getShape(b[24:])
}

// EncodeCQ returns the record of a CQ.
func (u *UserQueue) EncodeCQ() []byte { return u.encode(kindCQ) }

// EncodeSRQ returns the record of an SRQ.
func (u *UserQueue) EncodeSRQ() []byte { return u.encode(kindSRQ) }

func (u *UserQueue) encode(kind uint16) []byte {
	b := record(kind, UserQueueSize)
	u.put(b)
	return b
}

// DecodeCQ reads the record of a CQ.
func (u *UserQueue) DecodeCQ(b []byte) error { return u.decode(b, kindCQ) }

// DecodeSRQ reads the record of an SRQ.
func (u *UserQueue) DecodeSRQ(b []byte) error { return u.decode(b, kindSRQ) }

func (u *UserQueue) decode(b []byte, kind uint16) error {
	if err := checkRecord(b, kind, UserQueueSize); err != nil {
		return err
	}
	u.get(b)
	return nil
}

// Encode returns the record.
func (u *UserQP) Encode() []byte {
	b := record(kindQP, UserQPSize)
	u.Send.put(b)
	le.PutUint64(b[40:], u.RecvOffset)
	putShape(b[48:], u.Recv)
	le.PutUint32(b[64:], u.Index)
	le.PutUint32(b[68:], u.Num)
	return b
}

// Decode reads the record.
func (u *UserQP) Decode(b []byte) error {
	if err := checkRecord(b, kindQP, UserQPSize); err != nil {
		return err
	}
	u.Send.get(b)
	u.RecvOffset, u.Recv = le.Uint64(b[40:]), getShape(b[48:])
	u.Index, u.Num = le.Uint32(b[64:]), le.Uint32(b[68:])
	return nil
}

// Encode returns the record.
func (u *UserAV) Encode() []byte {
	b := record(kindAV, UserAVSize)
	le.PutUint32(b[8:], u.Number)
	return b
}

// Decode reads the record.
func (u *UserAV) Decode(b []byte) error {
	if err := checkRecord(b, kindAV, UserAVSize); err != nil {
		return err
	}
	u.Number = le.Uint32(b[8:])
	return nil
}
