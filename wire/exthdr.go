package wire

import "encoding/binary"

// Lengths of the extension headers in bytes (IBTA vol 1, 9.3). With several, their order in a packet is that of this list.
const (
	RDETHLen        = 4
	DETHLen         = 8
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4
)

// DETH is the datagram extended transport header.
//
//	byte 0:4  Q_Key
//	byte 4    reserved
//	byte 5:3  source QP
type DETH struct {
	QKey  uint32
	Resv8 uint8
	SrcQP uint32 // 24 bits
}

// Put writes the header to b[:DETHLen]; b must be that long.
func (h *DETH) Put(b []byte) {
	_ = b[DETHLen-1]
	binary.BigEndian.PutUint32(b, h.QKey)
	binary.BigEndian.PutUint32(b[4:], uint32(h.Resv8)<<24|h.SrcQP&Mask24)
}

// Parse reads the header from b[:DETHLen]; b must be that long.
func (h *DETH) Parse(b []byte) {
	_ = b[DETHLen-1]
	h.QKey = binary.BigEndian.Uint32(b)
	w := binary.BigEndian.Uint32(b[4:])
	h.Resv8, h.SrcQP = uint8(w>>24), w&Mask24
}

// RETH is the RDMA extended transport header.
//
//	byte 0:8   virtual address
//	byte 8:4   R_Key
//	byte 12:4  length of the whole message in bytes
type RETH struct {
	VA     uint64
	RKey   uint32
	DMALen uint32
}

// Put writes the header to b[:RETHLen]; b must be that long.
func (h *RETH) Put(b []byte) {
	_ = b[RETHLen-1]
	binary.BigEndian.PutUint64(b, h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.DMALen)
}

// Parse reads the header from b[:RETHLen]; b must be that long.
func (h *RETH) Parse(b []byte) {
	_ = b[RETHLen-1]
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.DMALen = binary.BigEndian.Uint32(b[12:])
}

// AtomicETH is the atomic extended transport header.
//
//	byte 0:8   virtual address
//	byte 8:4   R_Key
//	byte 12:8  swap value of a compare-swap, addend of a fetch-add
//	byte 20:8  compare value of a compare-swap; a fetch-add sends 0
type AtomicETH struct {
	VA      uint64
	RKey    uint32
	SwapAdd uint64
	Compare uint64
}

// Put writes the header to b[:AtomicETHLen]; b must be that long.
func (h *AtomicETH) Put(b []byte) {
	_ = b[AtomicETHLen-1]
	binary.BigEndian.PutUint64(b, h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

// Parse reads the header from b[:AtomicETHLen]; b must be that long.
func (h *AtomicETH) Parse(b []byte) {
	_ = b[AtomicETHLen-1]
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

// AETH is the ACK extended transport header.
//
//	byte 0    syndrome
//	byte 1:3  MSN, the responder's count of messages completed
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // 24 bits
}

// Put writes the header to b[:AETHLen]; b must be that long.
func (h *AETH) Put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(h.Syndrome)<<24|h.MSN&Mask24)
}

// Parse reads the header from b[:AETHLen]; b must be that long.
func (h *AETH) Parse(b []byte) {
	w := binary.BigEndian.Uint32(b)
	h.Syndrome, h.MSN = Syndrome(w>>24), w&Mask24
}

// AtomicAckETH is the atomic ACK extended transport header.
type AtomicAckETH struct {
	Orig uint64 // what the memory held before the operation
}

// Put writes the header to b[:AtomicAckETHLen]; b must be that long.
func (h *AtomicAckETH) Put(b []byte) { binary.BigEndian.PutUint64(b, h.Orig) }

// Parse reads the header from b[:AtomicAckETHLen]; b must be that long.
func (h *AtomicAckETH) Parse(b []byte) { h.Orig = binary.BigEndian.Uint64(b) }

// ImmDt is the immediate data header. The wire holds four bytes without meaning; here 0x01020304 stands for 01 02 03 04.
type ImmDt struct {
	Imm uint32
}

// Put writes the header to b[:ImmDtLen]; b must be that long.
func (h *ImmDt) Put(b []byte) { binary.BigEndian.PutUint32(b, h.Imm) }

// Parse reads the header from b[:ImmDtLen]; b must be that long.
func (h *ImmDt) Parse(b []byte) { h.Imm = binary.BigEndian.Uint32(b) }

// IETH is the invalidate extended transport header.
type IETH struct {
	RKey uint32 // the key that the responder invalidates
}

// Put writes the header to b[:IETHLen]; b must be that long.
func (h *IETH) Put(b []byte) { binary.BigEndian.PutUint32(b, h.RKey) }

// Parse reads the header from b[:IETHLen]; b must be that long.
func (h *IETH) Parse(b []byte) { h.RKey = binary.BigEndian.Uint32(b) }
