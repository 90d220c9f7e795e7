package wire

import "encoding/binary"

// LRHLen is the length of a local route header in bytes.
const LRHLen = 8

// Values of LRH.LNH, the link next header (IBTA vol 1, 7.7).
const (
	LNHRaw    = 0 // raw packet with an EtherType header
	LNHIPv6   = 1 // raw packet with an IPv6 header
	LNHLocal  = 2 // a BTH follows
	LNHGlobal = 3 // a GRH and a BTH follow
)

// LRH is the local route header (IBTA vol 1, 7.7).
type LRH struct {
	VL     uint8  // byte 0, bits 7-4: virtual lane, which the ICRC does not cover
	LVer   uint8  // byte 0, bits 3-0: link version, 0
	SL     uint8  // byte 1, bits 7-4: service level
	Resv2  uint8  // byte 1, bits 3-2: reserved
	LNH    uint8  // byte 1, bits 1-0: link next header
	DLID   uint16 // bytes 2-3: destination LID
	Resv5  uint8  // byte 4, bits 7-3: reserved
	PktLen uint16 // byte 4, bit 2, to byte 5, bit 0: length from the LRH to the end of the ICRC, in units of 4 bytes
	SLID   uint16 // bytes 6-7: source LID
}

// Put writes the header to b[:LRHLen]. It panics if b is shorter. Bits beyond a field's width are dropped.
func (h *LRH) Put(b []byte) {
	_ = b[LRHLen-1]
	b[0] = h.VL<<4 | h.LVer&15
	b[1] = h.SL<<4 | h.Resv2&3<<2 | h.LNH&3
	binary.BigEndian.PutUint16(b[2:], h.DLID)
	binary.BigEndian.PutUint16(b[4:], uint16(h.Resv5)<<11|h.PktLen&0x7ff)
	binary.BigEndian.PutUint16(b[6:], h.SLID)
}

// Parse reads the header from b[:LRHLen]. It panics if b is shorter. It accepts all values.
func (h *LRH) Parse(b []byte) {
	_ = b[LRHLen-1]
	h.VL, h.LVer = b[0]>>4, b[0]&15
	h.SL, h.Resv2, h.LNH = b[1]>>4, b[1]>>2&3, b[1]&3
	h.DLID = binary.BigEndian.Uint16(b[2:])
	w := binary.BigEndian.Uint16(b[4:])
	h.Resv5, h.PktLen = uint8(w>>11), w&0x7ff
	h.SLID = binary.BigEndian.Uint16(b[6:])
}

// StartLRH returns the ICRC of the LRH of a packet without GRH (IBTA vol 1, 7.8.1). The VL counts as ones.
func StartLRH(h *LRH) ICRC {
	v := *h
	v.VL = 15
	var b [LRHLen]byte
	v.Put(b[:])
	return ICRC(^headerCRC(0xffffffff, b[:]))
}
