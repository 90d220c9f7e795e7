package wire

// GRHAreaLen is the length in bytes of what a UD QP writes in front of every message it receives (IBTA vol 1, ch. 11,
// receive work requests; annex A17 for RoCEv2).
// Without a GRH its contents are undefined.
const GRHAreaLen = 40

// PutGRHArea4 fills b[:GRHAreaLen] for a packet that came over IPv4: 20 zero bytes and the IPv4 header with its checksum; b must be
// that long.
func PutGRHArea4(b []byte, h *IPv4) {
	clear(b[:GRHAreaLen-IPv4Len])
	h.Put(b[GRHAreaLen-IPv4Len:])
}

// PutGRHArea6 fills b[:GRHAreaLen] for a packet that came over IPv6: its header; b must be that long.
func PutGRHArea6(b []byte, h *IPv6) { h.Put(b) }

// ParseGRHArea is what the receiver of a UD message does with the area: the GRH in it, or for an IPv4 header its equivalent, with
// the addresses mapped into GIDs. Lengths in it are not judged, as the packet is not there. Errors: ErrShort, ErrVersion,
// ErrChecksum.
func ParseGRHArea(b []byte) (GRH, error) {
	if len(b) < GRHAreaLen {
		return GRH{}, errorf(ErrShort, "%d bytes, the GRH area has %d", len(b), GRHAreaLen)
	}
	if b[0]>>4 == 6 {
		var h IPv6
		h.parseFields(b)
		return GRH{h.TrafficClass, h.FlowLabel, h.PayloadLen, h.NextHeader, h.HopLimit, h.Src, h.Dst}, nil
	}
	v4 := b[GRHAreaLen-IPv4Len : GRHAreaLen]
	if v4[0] != 0x45 {
		return GRH{}, errorf(ErrVersion, "byte 0 is %#02x and byte 20 %#02x: neither a GRH nor an IPv4 header", b[0], v4[0])
	}
	if foldSum(sum16(0, v4)) != 0 {
		return GRH{}, errorf(ErrChecksum, "IPv4 header in the GRH area")
	}
	var h IPv4
	h.parseFields(v4)
	return GRH{TrafficClass: h.TOS, PayloadLen: max(h.TotalLen, IPv4Len) - IPv4Len, NextHeader: h.Protocol, HopLimit: h.TTL,
		SGID: GIDFromIPv4(h.Src), DGID: GIDFromIPv4(h.Dst)}, nil
}
