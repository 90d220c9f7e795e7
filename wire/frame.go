package wire

// Frame is a RoCE frame. Eth.EtherType determines which of the other headers are present: IP4 and UDP, IP6 and UDP, or
// GRH (RoCEv1).
type Frame struct {
	Eth    Ethernet
	IP4    IPv4
	IP6    IPv6
	GRH    GRH
	UDP    UDP
	Packet Packet
}

// ParseFrame parses an Ethernet frame without frame check sequence. It does not check the UDP checksum and the ICRC;
// see CheckUDP4, CheckUDP6 and Frame.CheckICRC. It allocates only errors.
//
// Errors: those of the Parse methods of the headers and of ParsePacket; ErrProtocol for other EtherTypes, IP protocols
// and UDP ports.
func ParseFrame(b []byte, f *Frame) error {
	*f = Frame{}
	if err := f.Eth.Parse(b); err != nil {
		return err
	}
	return f.parseNetwork(b[f.Eth.Len():])
}

// ParseIP is like ParseFrame for a RoCEv2 packet that begins with its IP header. It sets f.Eth.EtherType according to
// the IP version.
func ParseIP(b []byte, f *Frame) error {
	*f = Frame{}
	if len(b) == 0 {
		return errorf(ErrShort, "no IP header")
	}
	switch b[0] >> 4 {
	case 4:
		f.Eth.EtherType = EtherTypeIPv4
	case 6:
		f.Eth.EtherType = EtherTypeIPv6
	default:
		return errorf(ErrVersion, "IP version %d, want 4 or 6", b[0]>>4)
	}
	return f.parseNetwork(b)
}

func (f *Frame) parseNetwork(b []byte) error {
	switch f.Eth.EtherType {
	case EtherTypeRoCEv1:
		if err := f.GRH.Parse(b); err != nil {
			return err
		}
		return ParsePacket(b[GRHLen:GRHLen+int(f.GRH.PayloadLen)], &f.Packet)
	case EtherTypeIPv4:
		if err := f.IP4.Parse(b); err != nil {
			return err
		}
		if f.IP4.Protocol != ProtocolUDP {
			return errorf(ErrProtocol, "IPv4 protocol %d, want %d (UDP)", f.IP4.Protocol, ProtocolUDP)
		}
		return f.parseUDP(b[IPv4Len:f.IP4.TotalLen])
	case EtherTypeIPv6:
		if err := f.IP6.Parse(b); err != nil {
			return err
		}
		if f.IP6.NextHeader != ProtocolUDP {
			return errorf(ErrProtocol, "IPv6 next header %d, want %d (UDP)", f.IP6.NextHeader, ProtocolUDP)
		}
		return f.parseUDP(b[IPv6Len : IPv6Len+int(f.IP6.PayloadLen)])
	}
	return errorf(ErrProtocol, "EtherType %#04x", f.Eth.EtherType)
}

func (f *Frame) parseUDP(b []byte) error {
	if err := f.UDP.Parse(b); err != nil {
		return err
	}
	if f.UDP.DstPort != RoCEv2Port {
		return errorf(ErrProtocol, "UDP port %d, want %d", f.UDP.DstPort, RoCEv2Port)
	}
	if int(f.UDP.Length) != len(b) {
		return errorf(ErrLength, "UDP length %d in an IP payload of %d bytes", f.UDP.Length, len(b))
	}
	return ParsePacket(b[UDPLen:], &f.Packet)
}

// startICRC returns the ICRC of the headers in front of the BTH. It uses the lengths in the headers.
func (f *Frame) startICRC() ICRC {
	switch f.Eth.EtherType {
	case EtherTypeIPv4:
		return NewFlow4(f.IP4.Src, f.IP4.Dst, f.UDP.SrcPort, f.UDP.DstPort, f.IP4.Frag).Start(int(f.UDP.Length)-UDPLen,
			f.IP4.ID)
	case EtherTypeIPv6:
		return NewFlow6(f.IP6.Src, f.IP6.Dst, f.UDP.SrcPort, f.UDP.DstPort).Start(int(f.UDP.Length) - UDPLen)
	}
	return StartGRH(&f.GRH)
}

// CheckICRC returns ErrChecksum if the ICRC of the packet is wrong.
func (f *Frame) CheckICRC() error {
	var h [MaxHeaderLen]byte
	c := f.startICRC().Headers(h[:f.Packet.PutHeaders(h[:])]).Update(f.Packet.Payload).Update(f.Packet.Padding)
	if uint32(c) != f.Packet.ICRC {
		return errorf(ErrChecksum, "ICRC %#08x, computed %#08x", f.Packet.ICRC, uint32(c))
	}
	return nil
}

// AppendFrame appends the frame to dst, beginning with the Ethernet header. It computes the lengths, the next protocol,
// the IPv4 header checksum, the pad count and the ICRC, and sets them in f, too. The caller sets Eth.EtherType, which
// selects the headers, and all other fields including the UDP checksum. UDP destination port 0 becomes RoCEv2Port. The
// packet must fit the 16-bit length fields.
func AppendFrame(dst []byte, f *Frame) []byte {
	var h [EthernetLen + VLANLen]byte
	f.Eth.Put(h[:])
	return f.appendNetwork(append(dst, h[:f.Eth.Len()]...))
}

// AppendIP is like AppendFrame, without the Ethernet header.
func AppendIP(dst []byte, f *Frame) []byte { return f.appendNetwork(dst) }

func (f *Frame) appendNetwork(dst []byte) []byte {
	n := PacketLen(f.Packet.BTH.Opcode, len(f.Packet.Payload))
	if f.Eth.EtherType == EtherTypeRoCEv1 {
		f.GRH.NextHeader, f.GRH.PayloadLen = NextHeaderIBA, uint16(n)
		var h [GRHLen]byte
		f.GRH.Put(h[:])
		return appendSealed(append(dst, h[:]...), &f.Packet, f.startICRC())
	}
	f.UDP.Length = uint16(UDPLen + n)
	if f.UDP.DstPort == 0 {
		f.UDP.DstPort = RoCEv2Port
	}
	var h [IPv6Len + UDPLen]byte
	ip := h[:IPv6Len]
	if f.Eth.EtherType == EtherTypeIPv4 {
		ip = h[:IPv4Len]
		f.IP4.Protocol, f.IP4.TotalLen = ProtocolUDP, IPv4Len+f.UDP.Length
		f.IP4.SetChecksum()
		f.IP4.Put(ip)
	} else {
		f.IP6.NextHeader, f.IP6.PayloadLen = ProtocolUDP, f.UDP.Length
		f.IP6.Put(ip)
	}
	f.UDP.Put(h[len(ip):])
	return appendSealed(append(dst, h[:len(ip)+UDPLen]...), &f.Packet, f.startICRC())
}
