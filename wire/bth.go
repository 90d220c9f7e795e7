package wire

import "encoding/binary"

// BTHLen is the length of a base transport header.
const BTHLen = 12

// BTH is the base transport header (IBTA vol 1, 9.2). Senders set reserved bits to zero, and receivers ignore them. BTH
// keeps them, so that Put writes the bytes that Parse read; Packet.CheckReserved reports them. The ICRC does not cover
// byte 4.
type BTH struct {
	Opcode Opcode // byte 0
	SE     bool   // byte 1, bit 7: solicited event
	MigReq bool   // byte 1, bit 6
	Pad    uint8  // byte 1, bits 5-4: number of pad bytes after the payload
	TVer   uint8  // byte 1, bits 3-0: transport header version, 0
	PKey   uint16 // bytes 2-3
	FECN   bool   // byte 4, bit 7: forward congestion notification; reserved before RoCEv2 (annex A17)
	BECN   bool   // byte 4, bit 6: backward congestion notification; reserved before RoCEv2 (annex A17)
	Resv6  uint8  // byte 4, bits 5-0: reserved
	DestQP uint32 // bytes 5-7
	AckReq bool   // byte 8, bit 7
	Resv7  uint8  // byte 8, bits 6-0: reserved
	PSN    uint32 // bytes 9-11
}

// Put writes the header to b[:BTHLen]. It panics if b is shorter. Bits beyond a field's width are dropped.
func (h *BTH) Put(b []byte) {
	_ = b[BTHLen-1]
	b[0] = byte(h.Opcode)
	b[1] = bit(h.SE, 7) | bit(h.MigReq, 6) | h.Pad&3<<4 | h.TVer&15
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	binary.BigEndian.PutUint32(b[4:], uint32(bit(h.FECN, 7)|bit(h.BECN, 6)|h.Resv6&0x3f)<<24|h.DestQP&Mask24)
	binary.BigEndian.PutUint32(b[8:], uint32(bit(h.AckReq, 7)|h.Resv7&0x7f)<<24|h.PSN&Mask24)
}

// Parse reads the header from b[:BTHLen]. It panics if b is shorter. It accepts all values.
func (h *BTH) Parse(b []byte) {
	_ = b[BTHLen-1]
	h.Opcode = Opcode(b[0])
	h.SE, h.MigReq = b[1]&0x80 != 0, b[1]&0x40 != 0
	h.Pad, h.TVer = b[1]>>4&3, b[1]&15
	h.PKey = binary.BigEndian.Uint16(b[2:])
	w := binary.BigEndian.Uint32(b[4:])
	h.FECN, h.BECN = w>>31 != 0, w>>30&1 != 0
	h.Resv6, h.DestQP = uint8(w>>24&0x3f), w&Mask24
	w = binary.BigEndian.Uint32(b[8:])
	h.AckReq, h.Resv7, h.PSN = w>>31 != 0, uint8(w>>24&0x7f), w&Mask24
}

// Mask24 is the mask of QP numbers, PSNs and MSNs, which have 24 bits.
const Mask24 = 1<<24 - 1

// bit returns 1<<shift if set, and 0 otherwise.
func bit(set bool, shift uint8) byte {
	var v byte
	if set {
		v = 1
	}
	return v << shift
}
