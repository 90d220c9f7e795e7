package wire

// GRHLen is the length of a global route header in bytes.
const GRHLen = 40

// NextHeaderIBA is the GRH's next header value for a BTH (IBTA vol 1, 8.3).
const NextHeaderIBA = 0x1b

// GRH is the global route header (IBTA vol 1, 8.3): an IPv6 header with GIDs for addresses.
type GRH struct {
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
	PayloadLen   uint16 // what follows up to and including the ICRC, bytes
	NextHeader   uint8
	HopLimit     uint8
	SGID, DGID   [16]byte
}

func (h *GRH) ipv6() IPv6 {
	return IPv6{h.TrafficClass, h.FlowLabel, h.PayloadLen, h.NextHeader, h.HopLimit, h.SGID, h.DGID}
}

// Put writes the header to b[:GRHLen]; b must be that long.
func (h *GRH) Put(b []byte) {
	v := h.ipv6()
	v.Put(b)
}

// Parse reads the header from the start of b. Errors: ErrShort; ErrVersion; ErrLength for a payload length that does not fit b;
// ErrProtocol for a next header other than a BTH.
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

// StartGRH gives the ICRC up to the end of a GRH (IBTA vol 1, 7.8.1; A16 for RoCEv1). No bit of an LRH counts, since routers
// replace it: 8 bytes of ones stand there, whether there is one or not. Traffic class, flow label and hop limit read as ones.
func StartGRH(h *GRH) ICRC {
	v := h.ipv6()
	v.TrafficClass, v.FlowLabel, v.HopLimit = 0xff, MaskFlowLabel, 0xff
	var b [GRHLen]byte
	v.Put(b[:])
	return ICRC(^headerCRC(^uint32(icrcOnes), b[:]))
}
