package wire

import "encoding/binary"

// Lengths in bytes, protocol numbers and flags of the IP and UDP headers.
const (
	IPv4Len = 20 // without options
	IPv6Len = 40
	UDPLen  = 8

	ProtocolUDP = 17 // IPv4 protocol, IPv6 next header

	IPv4DontFragment = 0x4000
)

// IPv4 is an IPv4 header without options (RFC 791, 3.1). Byte 0 has version 4 and a header length of 5 words.
type IPv4 struct {
	TOS      uint8   // byte 1: DSCP and ECN, as of IPv6
	TotalLen uint16  // bytes 2-3: header and payload, bytes
	ID       uint16  // bytes 4-5: identification
	Frag     uint16  // bytes 6-7: flags (3 bits), fragment offset in units of 8 bytes (13)
	TTL      uint8   // byte 8
	Protocol uint8   // byte 9
	Checksum uint16  // bytes 10-11
	Src      [4]byte // bytes 12-15
	Dst      [4]byte // bytes 16-19
}

// Put writes the header to b[:IPv4Len]. It panics if b is shorter. It does not compute the checksum; see SetChecksum.
func (h *IPv4) Put(b []byte) {
	_ = b[IPv4Len-1]
	b[0], b[1] = 0x45, h.TOS
	binary.BigEndian.PutUint16(b[2:], h.TotalLen)
	binary.BigEndian.PutUint16(b[4:], h.ID)
	binary.BigEndian.PutUint16(b[6:], h.Frag)
	b[8], b[9] = h.TTL, h.Protocol
	binary.BigEndian.PutUint16(b[10:], h.Checksum)
	*(*[4]byte)(b[12:]) = h.Src
	*(*[4]byte)(b[16:]) = h.Dst
}

// Parse reads the header from the start of b. Errors: ErrShort, ErrVersion; ErrLength for options, which RoCEv2 does
// not use (annex A17), and for a total length that does not fit b; ErrChecksum; ErrFragment.
func (h *IPv4) Parse(b []byte) error {
	if len(b) < IPv4Len {
		return errorf(ErrShort, "%d bytes, want at least %d for an IPv4 header", len(b), IPv4Len)
	}
	if b[0]>>4 != 4 {
		return errorf(ErrVersion, "IP version %d, want 4", b[0]>>4)
	}
	if b[0]&15 != 5 {
		return errorf(ErrLength, "IPv4 header of %d words, want 5 (no options)", b[0]&15)
	}
	h.parseFields(b)
	switch {
	case int(h.TotalLen) < IPv4Len || int(h.TotalLen) > len(b):
		return errorf(ErrLength, "IPv4 total length %d in %d bytes", h.TotalLen, len(b))
	case foldSum(sum16(0, b[:IPv4Len])) != 0:
		return errorf(ErrChecksum, "IPv4 header checksum %#04x", h.Checksum)
	case h.Frag&0x3fff != 0:
		return errorf(ErrFragment, "IPv4 flags and offset %#04x", h.Frag)
	}
	return nil
}

// parseFields reads b[:IPv4Len] and accepts all values.
func (h *IPv4) parseFields(b []byte) {
	_ = b[IPv4Len-1]
	h.TOS = b[1]
	h.TotalLen = binary.BigEndian.Uint16(b[2:])
	h.ID = binary.BigEndian.Uint16(b[4:])
	h.Frag = binary.BigEndian.Uint16(b[6:])
	h.TTL, h.Protocol = b[8], b[9]
	h.Checksum = binary.BigEndian.Uint16(b[10:])
	h.Src, h.Dst = [4]byte(b[12:]), [4]byte(b[16:])
}

// SetChecksum sets Checksum to the checksum of the header.
func (h *IPv4) SetChecksum() {
	var b [IPv4Len]byte
	h.Checksum = 0
	h.Put(b[:])
	h.Checksum = foldSum(sum16(0, b[:]))
}

// IPv6 is an IPv6 header (RFC 8200, 3). Bits 7-4 of byte 0 are the version, 6.
type IPv6 struct {
	TrafficClass uint8    // byte 0, bit 3, to byte 1, bit 4
	FlowLabel    uint32   // byte 1, bit 3, to byte 3, bit 0
	PayloadLen   uint16   // bytes 4-5: number of bytes after the header
	NextHeader   uint8    // byte 6
	HopLimit     uint8    // byte 7
	Src          [16]byte // bytes 8-23
	Dst          [16]byte // bytes 24-39
}

// Put writes the header to b[:IPv6Len]. It panics if b is shorter.
func (h *IPv6) Put(b []byte) {
	_ = b[IPv6Len-1]
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.TrafficClass)<<20|h.FlowLabel&MaskFlowLabel)
	binary.BigEndian.PutUint16(b[4:], h.PayloadLen)
	b[6], b[7] = h.NextHeader, h.HopLimit
	*(*[16]byte)(b[8:]) = h.Src
	*(*[16]byte)(b[24:]) = h.Dst
}

// Parse reads the header from the start of b. Errors: ErrShort, ErrVersion, and ErrLength for a payload length that
// does not fit b.
func (h *IPv6) Parse(b []byte) error {
	if len(b) < IPv6Len {
		return errorf(ErrShort, "%d bytes, want at least %d for an IPv6 header", len(b), IPv6Len)
	}
	if b[0]>>4 != 6 {
		return errorf(ErrVersion, "IP version %d, want 6", b[0]>>4)
	}
	h.parseFields(b)
	if int(h.PayloadLen) > len(b)-IPv6Len {
		return errorf(ErrLength, "IPv6 payload length %d in %d bytes", h.PayloadLen, len(b)-IPv6Len)
	}
	return nil
}

// parseFields reads b[:IPv6Len] and accepts all values.
func (h *IPv6) parseFields(b []byte) {
	_ = b[IPv6Len-1]
	w := binary.BigEndian.Uint32(b)
	h.TrafficClass, h.FlowLabel = uint8(w>>20), w&MaskFlowLabel
	h.PayloadLen = binary.BigEndian.Uint16(b[4:])
	h.NextHeader, h.HopLimit = b[6], b[7]
	h.Src, h.Dst = [16]byte(b[8:]), [16]byte(b[24:])
}

// MaskFlowLabel is the mask of IPv6 and GRH flow labels, which have 20 bits.
const MaskFlowLabel = 1<<20 - 1

// sum16 returns s plus the big-endian 16-bit words of b (RFC 1071). An odd last byte is the high half of a word.
func sum16(s uint64, b []byte) uint64 {
	for ; len(b) >= 4; b = b[4:] {
		s += uint64(binary.BigEndian.Uint32(b))
	}
	if len(b) >= 2 {
		s += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return s
}

// foldSum returns the Internet checksum for a sum of words (RFC 1071).
func foldSum(s uint64) uint16 {
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}

// IsCE reports whether the ECN field of a traffic class or TOS says that the packet has met congestion (RFC 3168,
// section 5).
func IsCE(class uint8) bool { return class&3 == 3 }
