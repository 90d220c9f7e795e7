package wire

import "encoding/binary"

// Lengths in bytes and numbers of the headers below RoCEv2.
const (
	IPv4Len = 20 // without options
	IPv6Len = 40
	UDPLen  = 8

	ProtocolUDP = 17 // IPv4 protocol, IPv6 next header

	IPv4DontFragment  = 0x4000
	IPv4MoreFragments = 0x2000
)

// IPv4 is an IPv4 header without options (RFC 791).
type IPv4 struct {
	TOS      uint8
	TotalLen uint16 // header and payload, bytes
	ID       uint16
	Frag     uint16 // flags in the top three bits, fragment offset in units of 8 bytes
	TTL      uint8
	Protocol uint8
	Checksum uint16
	Src, Dst [4]byte
}

// Put writes the header to b[:IPv4Len]; b must be that long. The checksum is written as it stands; see SetChecksum.
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

// Parse reads the header from the start of b. Errors: ErrShort, ErrVersion; ErrLength for options, which RoCEv2 does not use
// (annex A17), and for a total length that does not fit b; ErrChecksum; ErrFragment.
func (h *IPv4) Parse(b []byte) error {
	if len(b) < IPv4Len {
		return errorf(ErrShort, "%d bytes, an IPv4 header has %d", len(b), IPv4Len)
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

// parseFields reads b[:IPv4Len] without judging it.
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

// SetChecksum computes the header checksum.
func (h *IPv4) SetChecksum() {
	var b [IPv4Len]byte
	h.Checksum = 0
	h.Put(b[:])
	h.Checksum = foldSum(sum16(0, b[:]))
}

// IPv6 is an IPv6 header (RFC 8200).
type IPv6 struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   uint16 // what follows the header, bytes
	NextHeader   uint8
	HopLimit     uint8
	Src, Dst     [16]byte
}

// Put writes the header to b[:IPv6Len]; b must be that long.
func (h *IPv6) Put(b []byte) {
	_ = b[IPv6Len-1]
	binary.BigEndian.PutUint32(b, 6<<28|uint32(h.TrafficClass)<<20|h.FlowLabel&MaskFlowLabel)
	binary.BigEndian.PutUint16(b[4:], h.PayloadLen)
	b[6], b[7] = h.NextHeader, h.HopLimit
	*(*[16]byte)(b[8:]) = h.Src
	*(*[16]byte)(b[24:]) = h.Dst
}

// Parse reads the header from the start of b. Errors: ErrShort, ErrVersion, and ErrLength for a payload length that does not fit b.
func (h *IPv6) Parse(b []byte) error {
	if len(b) < IPv6Len {
		return errorf(ErrShort, "%d bytes, an IPv6 header has %d", len(b), IPv6Len)
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

// parseFields reads b[:IPv6Len] without judging it.
func (h *IPv6) parseFields(b []byte) {
	_ = b[IPv6Len-1]
	w := binary.BigEndian.Uint32(b)
	h.TrafficClass, h.FlowLabel = uint8(w>>20), w&MaskFlowLabel
	h.PayloadLen = binary.BigEndian.Uint16(b[4:])
	h.NextHeader, h.HopLimit = b[6], b[7]
	h.Src, h.Dst = [16]byte(b[8:]), [16]byte(b[24:])
}

// MaskFlowLabel keeps the width of an IPv6 or GRH flow label.
const MaskFlowLabel = 1<<20 - 1

// sum16 adds b to a ones' complement sum, as big-endian 16-bit words, a last odd byte being the high half of one (RFC 1071).
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

// foldSum gives the Internet checksum of a sum.
func foldSum(s uint64) uint16 {
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}
