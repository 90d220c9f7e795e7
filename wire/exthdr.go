package wire

import "encoding/binary"

// Lengths of the extension headers in bytes (IBTA vol 1, 9.3). In a packet with several of them, they have the order of
// this list.
const (
	RDETHLen        = 4
	DETHLen         = 8
	FETHLen         = 4
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4
)

// DETH is the datagram extended transport header (IBTA vol 1, 9.3).
type DETH struct {
	QKey  uint32 // bytes 0-3
	Resv8 uint8  // byte 4: reserved
	SrcQP uint32 // bytes 5-7
}

// Put writes the header to b[:DETHLen]. It panics if b is shorter.
func (h *DETH) Put(b []byte) {
	_ = b[DETHLen-1]
	binary.BigEndian.PutUint32(b, h.QKey)
	binary.BigEndian.PutUint32(b[4:], uint32(h.Resv8)<<24|h.SrcQP&Mask24)
}

// Parse reads the header from b[:DETHLen]. It panics if b is shorter.
func (h *DETH) Parse(b []byte) {
	_ = b[DETHLen-1]
	h.QKey = binary.BigEndian.Uint32(b)
	w := binary.BigEndian.Uint32(b[4:])
	h.Resv8, h.SrcQP = uint8(w>>24), w&Mask24
}

// FETH is the flush extended transport header (IBTA vol 1, release 1.6, annex A19).
type FETH struct {
	Resv26 uint32 // bits 31-6: reserved
	Sel    uint8  // bits 5-4: selectivity level, FlushRange or FlushRegion
	Types  uint8  // bits 3-0: placement types, a set of FlushGlobal and FlushPersistent
}

// The fields of a FETH.
const (
	FlushGlobal     = 1 // visible to all that access the memory
	FlushPersistent = 2 // kept when power is lost
	FlushRange      = 0 // the range in the RETH
	FlushRegion     = 1 // the whole region of the R_Key
)

// Put writes the header to b[:FETHLen]. It panics if b is shorter.
func (h *FETH) Put(b []byte) {
	binary.BigEndian.PutUint32(b, h.Resv26<<6|uint32(h.Sel&3)<<4|uint32(h.Types&15))
}

// Parse reads the header from b[:FETHLen]. It panics if b is shorter.
func (h *FETH) Parse(b []byte) {
	w := binary.BigEndian.Uint32(b)
	h.Resv26, h.Sel, h.Types = w>>6, uint8(w>>4)&3, uint8(w)&15
}

// RETH is the RDMA extended transport header (IBTA vol 1, 9.3).
type RETH struct {
	VA     uint64 // bytes 0-7: virtual address
	RKey   uint32 // bytes 8-11
	DMALen uint32 // bytes 12-15: length of the whole message in bytes
}

// Put writes the header to b[:RETHLen]. It panics if b is shorter.
func (h *RETH) Put(b []byte) {
	_ = b[RETHLen-1]
	binary.BigEndian.PutUint64(b, h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.DMALen)
}

// Parse reads the header from b[:RETHLen]. It panics if b is shorter.
func (h *RETH) Parse(b []byte) {
	_ = b[RETHLen-1]
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.DMALen = binary.BigEndian.Uint32(b[12:])
}

// AtomicETH is the atomic extended transport header (IBTA vol 1, 9.3).
type AtomicETH struct {
	VA      uint64 // bytes 0-7: virtual address
	RKey    uint32 // bytes 8-11
	SwapAdd uint64 // bytes 12-19: swap value of a compare-swap, addend of a fetch-add
	Compare uint64 // bytes 20-27: compare value of a compare-swap, 0 in a fetch-add
}

// Put writes the header to b[:AtomicETHLen]. It panics if b is shorter.
func (h *AtomicETH) Put(b []byte) {
	_ = b[AtomicETHLen-1]
	binary.BigEndian.PutUint64(b, h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

// Parse reads the header from b[:AtomicETHLen]. It panics if b is shorter.
func (h *AtomicETH) Parse(b []byte) {
	_ = b[AtomicETHLen-1]
	h.VA = binary.BigEndian.Uint64(b)
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

// AETH is the ACK extended transport header (IBTA vol 1, 9.3).
type AETH struct {
	Syndrome Syndrome // byte 0
	MSN      uint32   // bytes 1-3: number of messages that the responder has completed
}

// Put writes the header to b[:AETHLen]. It panics if b is shorter.
func (h *AETH) Put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(h.Syndrome)<<24|h.MSN&Mask24)
}

// Parse reads the header from b[:AETHLen]. It panics if b is shorter.
func (h *AETH) Parse(b []byte) {
	w := binary.BigEndian.Uint32(b)
	h.Syndrome, h.MSN = Syndrome(w>>24), w&Mask24
}

// AtomicAckETH is the atomic ACK extended transport header (IBTA vol 1, 9.3).
type AtomicAckETH struct {
	Orig uint64 // bytes 0-7: value in memory before the operation
}

// Put writes the header to b[:AtomicAckETHLen]. It panics if b is shorter.
func (h *AtomicAckETH) Put(b []byte) { binary.BigEndian.PutUint64(b, h.Orig) }

// Parse reads the header from b[:AtomicAckETHLen]. It panics if b is shorter.
func (h *AtomicAckETH) Parse(b []byte) { h.Orig = binary.BigEndian.Uint64(b) }

// ImmDt is the immediate data header (IBTA vol 1, 9.3). The four bytes are opaque: 0x01020304 represents the bytes 01
// 02 03 04.
type ImmDt struct {
	Imm uint32 // bytes 0-3
}

// Put writes the header to b[:ImmDtLen]. It panics if b is shorter.
func (h *ImmDt) Put(b []byte) { binary.BigEndian.PutUint32(b, h.Imm) }

// Parse reads the header from b[:ImmDtLen]. It panics if b is shorter.
func (h *ImmDt) Parse(b []byte) { h.Imm = binary.BigEndian.Uint32(b) }

// IETH is the invalidate extended transport header (IBTA vol 1, 9.3).
type IETH struct {
	RKey uint32 // bytes 0-3: the key that the responder invalidates
}

// Put writes the header to b[:IETHLen]. It panics if b is shorter.
func (h *IETH) Put(b []byte) { binary.BigEndian.PutUint32(b, h.RKey) }

// Parse reads the header from b[:IETHLen]. It panics if b is shorter.
func (h *IETH) Parse(b []byte) { h.RKey = binary.BigEndian.Uint32(b) }
