package wire

import "encoding/binary"

// LRHLen is the length of a local route header in bytes.
const LRHLen = 8

// Values of LRH.LNH, the link next header (IBTA vol 1, 7.7).
const (
	LNHRaw    = 0 // raw, EtherType header
	LNHIPv6   = 1 // raw, IPv6 header
	LNHLocal  = 2 // BTH
	LNHGlobal = 3 // GRH, then BTH
)

// LRH is the local route header (IBTA vol 1, 7.7).
//
//	byte 0    VL 4, link version 4
//	byte 1    SL 4, reserved 2, LNH 2
//	byte 2:2  destination LID
//	byte 4:2  reserved 5, packet length 11
//	byte 6:2  source LID
type LRH struct {
	VL     uint8 // 4 bits; not covered by the ICRC
	LVer   uint8 // 4 bits, 0
	SL     uint8 // 4 bits
	Resv2  uint8 // 2 bits
	LNH    uint8 // 2 bits
	DLID   uint16
	Resv5  uint8  // 5 bits
	PktLen uint16 // 11 bits: from here to before the VCRC, in units of 4 bytes
	SLID   uint16
}

// Put writes the header to b[:LRHLen]; b must be that long. Bits beyond a field's width are cut off.
func (h *LRH) Put(b []byte) {
	_ = b[LRHLen-1]
	b[0] = h.VL<<4 | h.LVer&15
	b[1] = h.SL<<4 | h.Resv2&3<<2 | h.LNH&3
	binary.BigEndian.PutUint16(b[2:], h.DLID)
	binary.BigEndian.PutUint16(b[4:], uint16(h.Resv5)<<11|h.PktLen&0x7ff)
	binary.BigEndian.PutUint16(b[6:], h.SLID)
}

// Parse reads the header from b[:LRHLen]; b must be that long. It judges nothing.
func (h *LRH) Parse(b []byte) {
	_ = b[LRHLen-1]
	h.VL, h.LVer = b[0]>>4, b[0]&15
	h.SL, h.Resv2, h.LNH = b[1]>>4, b[1]>>2&3, b[1]&3
	h.DLID = binary.BigEndian.Uint16(b[2:])
	w := binary.BigEndian.Uint16(b[4:])
	h.Resv5, h.PktLen = uint8(w>>11), w&0x7ff
	h.SLID = binary.BigEndian.Uint16(b[6:])
}

// StartLRH gives the ICRC up to the end of the LRH of a packet without GRH (IBTA vol 1, 7.8.1): the VL reads as ones.
func StartLRH(h *LRH) ICRC {
	v := *h
	v.VL = 15
	var b [LRHLen]byte
	v.Put(b[:])
	return ICRC(^headerCRC(0xffffffff, b[:]))
}
