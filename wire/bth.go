package wire

import "encoding/binary"

// BTHLen is the length of a base transport header.
const BTHLen = 12

// BTH is the base transport header (IBTA vol 1, 9.2). The reserved bits are kept so that a packet re-encodes to the bytes it came
// from; a sender leaves them zero, a receiver ignores them (CheckReserved is for those who judge a sender).
//
//	byte 0    opcode
//	byte 1    SE 1, MigReq 1, pad count 2, TVer 4
//	byte 2:2  P_Key
//	byte 4    FECN 1, BECN 1 (RoCEv2 and later IBTA; reserved before), reserved 6: not covered by the ICRC
//	byte 5:3  destination QP
//	byte 8    AckReq 1, reserved 7
//	byte 9:3  PSN
type BTH struct {
	Opcode Opcode
	SE     bool // solicited event
	MigReq bool
	Pad    uint8 // bytes of padding behind the payload, 0-3
	TVer   uint8 // transport version, 0; four bits
	PKey   uint16
	FECN   bool
	BECN   bool
	Resv6  uint8  // reserved, six bits
	DestQP uint32 // 24 bits
	AckReq bool
	Resv7  uint8  // reserved, seven bits
	PSN    uint32 // 24 bits
}

// Put writes the header to b[:BTHLen]; b must be that long. Bits beyond a field's width are cut off.
func (h *BTH) Put(b []byte) {
	_ = b[BTHLen-1]
	b[0] = byte(h.Opcode)
	b[1] = bit(h.SE, 7) | bit(h.MigReq, 6) | h.Pad&3<<4 | h.TVer&15
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	binary.BigEndian.PutUint32(b[4:], uint32(bit(h.FECN, 7)|bit(h.BECN, 6)|h.Resv6&0x3f)<<24|h.DestQP&Mask24)
	binary.BigEndian.PutUint32(b[8:], uint32(bit(h.AckReq, 7)|h.Resv7&0x7f)<<24|h.PSN&Mask24)
}

// Parse reads the header from b[:BTHLen]; b must be that long. It judges nothing.
func (h *BTH) Parse(b []byte) {
	_ = b[BTHLen-1]
	h.Opcode = Opcode(b[0])
	h.SE, h.MigReq = b[1]&0x80 != 0, b[1]&0x40 != 0
	h.Pad, h.TVer = b[1]>>4&3, b[1]&15
	h.PKey = binary.BigEndian.Uint16(b[2:])
	w := binary.BigEndian.Uint32(b[4:])
	h.FECN, h.BECN, h.Resv6, h.DestQP = w>>31 != 0, w>>30&1 != 0, uint8(w>>24&0x3f), w&Mask24
	w = binary.BigEndian.Uint32(b[8:])
	h.AckReq, h.Resv7, h.PSN = w>>31 != 0, uint8(w>>24&0x7f), w&Mask24
}

// Mask24 keeps the width of QP numbers, PSNs and MSNs.
const Mask24 = 1<<24 - 1

func bit(set bool, shift uint8) byte {
	var v byte
	if set {
		v = 1
	}
	return v << shift
}
