package wire

// GRHLen is the length of a global route header in bytes.
const GRHLen = 40

// NextHeaderIBA is the next header value of a GRH in front of a BTH (IBTA vol 1, 8.3).
const NextHeaderIBA = 0x1b

// GRH is the global route header (IBTA vol 1, 8.3): an IPv6 header with GIDs as addresses. Bits 7-4 of byte 0 are the
// IP version, 6.
type GRH struct {
	TrafficClass uint8    // byte 0, bit 3, to byte 1, bit 4
	FlowLabel    uint32   // byte 1, bit 3, to byte 3, bit 0
	PayloadLen   uint16   // bytes 4-5: number of bytes from the end of the GRH to the end of the ICRC
	NextHeader   uint8    // byte 6: NextHeaderIBA
	HopLimit     uint8    // byte 7
	SGID         [16]byte // bytes 8-23
	DGID         [16]byte // bytes 24-39
}

// ipv6 returns the header as an IPv6 header.
func (h *GRH) ipv6() IPv6 {
	return IPv6{h.TrafficClass, h.FlowLabel, h.PayloadLen, h.NextHeader, h.HopLimit, h.SGID, h.DGID}
}

// Put writes the header to b[:GRHLen]. It panics if b is shorter.
func (h *GRH) Put(b []byte) {
	v := h.ipv6()
	v.Put(b)
}

// Parse reads the header from the start of b. Errors: ErrShort; ErrVersion; ErrLength for a payload length that does
// not fit b; ErrProtocol for a next header other than NextHeaderIBA.
func (h *GRH) Parse(b []byte) error {
	var v IPv6
	if err := v.Parse(b); err != nil {
		return err
	}
	*h = GRH{v.TrafficClass, v.FlowLabel, v.PayloadLen, v.NextHeader, v.HopLimit, v.Src, v.Dst}
	if h.NextHeader != NextHeaderIBA {
		return errorf(ErrProtocol, "GRH next header %#02x, want %#02x", h.NextHeader, NextHeaderIBA)
	}
	return nil
}

// StartGRH returns the ICRC of the headers up to the end of a GRH (IBTA vol 1, 7.8.1; annex A16 for RoCEv1). Routers
// replace the LRH, so 8 bytes of ones take its place, also in packets without one. Traffic class, flow label and hop
// limit count as ones.
func StartGRH(h *GRH) ICRC {
	v := h.ipv6()
	v.TrafficClass, v.FlowLabel, v.HopLimit = 0xff, MaskFlowLabel, 0xff
	var b [GRHLen]byte
	v.Put(b[:])
	return ICRC(^headerCRC(^uint32(icrcOnes), b[:]))
}
