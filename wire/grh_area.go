package wire

// GRHAreaLen is the length in bytes of the area that a UD QP writes in front of every received message (IBTA vol 1, ch.
// 11, receive work requests; annex A17 for RoCEv2). Its contents are undefined if the packet had no GRH.
const GRHAreaLen = 40

// PutGRHArea4 writes the area for a packet over IPv4 to b[:GRHAreaLen]: 20 zero bytes and the IPv4 header. It panics if
// b is shorter.
func PutGRHArea4(b []byte, h *IPv4) {
	clear(b[:GRHAreaLen-IPv4Len])
	h.Put(b[GRHAreaLen-IPv4Len:])
}

// PutGRHArea6 writes the area for a packet over IPv6 to b[:GRHAreaLen]: the IPv6 header. It panics if b is shorter.
func PutGRHArea6(b []byte, h *IPv6) { h.Put(b) }

// ParseGRHArea returns the GRH in the area of a received UD message. It converts an IPv4 header to a GRH with
// IPv4-mapped GIDs. It does not validate lengths, because the area does not contain the packet. Errors: ErrShort,
// ErrVersion, ErrChecksum.
func ParseGRHArea(b []byte) (GRH, error) {
	if len(b) < GRHAreaLen {
		return GRH{}, errorf(ErrShort, "%d bytes, want at least %d for the GRH area", len(b), GRHAreaLen)
	}
	if b[0]>>4 == 6 {
		var h IPv6
		h.parseFields(b)
		return GRH{h.TrafficClass, h.FlowLabel, h.PayloadLen, h.NextHeader, h.HopLimit, h.Src, h.Dst}, nil
	}
	v4 := b[GRHAreaLen-IPv4Len : GRHAreaLen]
	if v4[0] != 0x45 {
		return GRH{}, errorf(ErrVersion, "byte 0 is %#02x and byte 20 %#02x: neither a GRH nor an IPv4 header", b[0],
			v4[0])
	}
	if foldSum(sum16(0, v4)) != 0 {
		return GRH{}, errorf(ErrChecksum, "IPv4 header in the GRH area")
	}
	var h IPv4
	h.parseFields(v4)
	return GRH{TrafficClass: h.TOS, PayloadLen: max(h.TotalLen, IPv4Len) - IPv4Len, NextHeader: h.Protocol,
		HopLimit: h.TTL,
		SGID:     GIDFromIPv4(h.Src), DGID: GIDFromIPv4(h.Dst)}, nil
}
