package wire

import "encoding/binary"

// ICRCLen is the length in bytes of the invariant CRC at the end of every packet.
const ICRCLen = 4

// MaxHeaderLen is the largest length in bytes of a BTH with extension headers, that of an RD atomic.
const MaxHeaderLen = BTHLen + RDETHLen + DETHLen + AtomicETHLen

// Packet is a transport packet, from BTH to ICRC. The opcode determines which extension headers are present;
// ParsePacket sets the others to zero.
type Packet struct {
	BTH          BTH
	DETH         DETH
	FETH         FETH
	RETH         RETH
	AtomicETH    AtomicETH
	AETH         AETH
	AtomicAckETH AtomicAckETH
	ImmDt        ImmDt
	IETH         IETH
	Payload      []byte // without pad; ParsePacket sets it to a subslice of its argument
	Padding      []byte // the BTH.Pad bytes after the payload, which a sender sets to zero; a subslice like Payload
	ICRC         uint32 // on the wire, least significant byte first
}

// ParsePacket parses a transport packet: the payload of a RoCEv2 UDP datagram, or the part of an InfiniBand packet from
// BTH to ICRC. It does not check reserved bits and pad bytes, which receivers ignore (see CheckReserved), nor the ICRC,
// which covers headers outside of b. It allocates only errors.
//
// Errors, in the order of the checks: ErrShort, ErrLength, ErrVersion, ErrOpcode, ErrPad, ErrPayload. After ErrVersion
// and ErrOpcode, p.BTH is set. After ErrPad and ErrPayload, all headers are set, because a responder may have to send a
// NAK.
func ParsePacket(b []byte, p *Packet) error {
	*p = Packet{}
	if len(b) < BTHLen+ICRCLen {
		return errorf(ErrShort, "%d bytes, want at least %d for BTH and ICRC", len(b), BTHLen+ICRCLen)
	}
	if len(b)%4 != 0 {
		return errorf(ErrLength, "%d bytes, want a multiple of 4", len(b))
	}
	p.BTH.Parse(b)
	if p.BTH.TVer != 0 {
		return errorf(ErrVersion, "TVer %d, want 0", p.BTH.TVer)
	}
	o := &opTable[p.BTH.Opcode]
	if o.flags&flagValid == 0 {
		return errorf(ErrOpcode, "%v", p.BTH.Opcode)
	}
	n := int(o.hdr)
	end := len(b) - ICRCLen
	if end < n {
		return errorf(ErrShort, "%d bytes, want at least %d for %v", len(b), n+ICRCLen, p.BTH.Opcode)
	}
	p.ICRC = binary.LittleEndian.Uint32(b[end:])
	p.parseExtensions(b[BTHLen:n], o.flags)

	pad := int(p.BTH.Pad)
	if pad > end-n {
		return errorf(ErrPad, "%d pad bytes in %d bytes of payload and pad", pad, end-n)
	}
	p.Payload, p.Padding = b[n:end-pad:end-pad], b[end-pad:end:end]
	if end > n && o.flags&flagPayload == 0 {
		return errorf(ErrPayload, "%v with %d bytes of payload", p.BTH.Opcode, end-n)
	}
	return nil
}

// parseExtensions reads the extension headers from b.
func (p *Packet) parseExtensions(b []byte, flags uint16) {
	if flags&flagDETH != 0 {
		p.DETH.Parse(b)
		b = b[DETHLen:]
	}
	if flags&flagFETH != 0 {
		p.FETH.Parse(b)
		b = b[FETHLen:]
	}
	if flags&flagRETH != 0 {
		p.RETH.Parse(b)
		b = b[RETHLen:]
	}
	if flags&flagAtomicETH != 0 {
		p.AtomicETH.Parse(b)
		b = b[AtomicETHLen:]
	}
	if flags&flagAETH != 0 {
		p.AETH.Parse(b)
		b = b[AETHLen:]
	}
	if flags&flagAtomicAckETH != 0 {
		p.AtomicAckETH.Parse(b)
		b = b[AtomicAckETHLen:]
	}
	if flags&flagImm != 0 {
		p.ImmDt.Parse(b)
		b = b[ImmDtLen:]
	}
	if flags&flagIETH != 0 {
		p.IETH.Parse(b)
	}
}

// PutHeaders writes the BTH and the extension headers of its opcode to b, and returns their length,
// BTH.Opcode.HeaderLen(). b must be at least that long; MaxHeaderLen is always enough. For opcodes of RD, it writes
// zeros in the RDETH. For undefined opcodes, it writes the BTH only.
func (p *Packet) PutHeaders(b []byte) int {
	o := &opTable[p.BTH.Opcode]
	b = b[:o.hdr]
	p.BTH.Put(b)
	b = b[BTHLen:]
	if o.flags&flagRDETH != 0 {
		clear(b[:RDETHLen])
		b = b[RDETHLen:]
	}
	if o.flags&flagDETH != 0 {
		p.DETH.Put(b)
		b = b[DETHLen:]
	}
	if o.flags&flagFETH != 0 {
		p.FETH.Put(b)
		b = b[FETHLen:]
	}
	if o.flags&flagRETH != 0 {
		p.RETH.Put(b)
		b = b[RETHLen:]
	}
	if o.flags&flagAtomicETH != 0 {
		p.AtomicETH.Put(b)
		b = b[AtomicETHLen:]
	}
	if o.flags&flagAETH != 0 {
		p.AETH.Put(b)
		b = b[AETHLen:]
	}
	if o.flags&flagAtomicAckETH != 0 {
		p.AtomicAckETH.Put(b)
		b = b[AtomicAckETHLen:]
	}
	if o.flags&flagImm != 0 {
		p.ImmDt.Put(b)
		b = b[ImmDtLen:]
	}
	if o.flags&flagIETH != 0 {
		p.IETH.Put(b)
	}
	return int(o.hdr)
}

// AppendPacket appends the headers, payload, pad and ICRC of the packet to dst. It sets p.BTH.Pad according to the
// payload, and ignores p.Padding: pad bytes are zero. It writes p.ICRC and does not compute it, because the ICRC also
// covers headers that are not in p.
func AppendPacket(dst []byte, p *Packet) []byte {
	p.BTH.Pad = PadLen(len(p.Payload))
	var h [MaxHeaderLen]byte
	dst = append(dst, h[:p.PutHeaders(h[:])]...)
	dst = append(dst, p.Payload...)
	for range p.BTH.Pad {
		dst = append(dst, 0)
	}
	return binary.LittleEndian.AppendUint32(dst, p.ICRC)
}

// PadLen returns the number of pad bytes, 0 to 3, after n bytes of payload.
func PadLen(n int) uint8 { return uint8(-n & 3) }

// PacketLen returns the length in bytes of a packet with n bytes of payload: headers, payload, pad and ICRC.
func PacketLen(o Opcode, n int) int { return o.HeaderLen() + n + int(PadLen(n)) + ICRCLen }

// CheckReserved returns ErrReserved if a reserved bit or a pad byte is not zero, or if the AETH syndrome is reserved.
// It is for tools that check a sender. Receivers ignore reserved fields, and must not drop packets because of them.
func (p *Packet) CheckReserved() error {
	o := p.BTH.Opcode
	switch {
	case p.BTH.Resv6 != 0:
		return errorf(ErrReserved, "BTH byte 4 has reserved bits %#02x", p.BTH.Resv6)
	case p.BTH.Resv7 != 0:
		return errorf(ErrReserved, "BTH byte 8 has reserved bits %#02x", p.BTH.Resv7)
	case o.HasDETH() && p.DETH.Resv8 != 0:
		return errorf(ErrReserved, "DETH byte 4 is %#02x", p.DETH.Resv8)
	case o.HasFETH() && p.FETH.Resv26 != 0:
		return errorf(ErrReserved, "FETH has reserved bits %#x", p.FETH.Resv26)
	case o.HasAETH() && p.AETH.Syndrome.Reserved():
		return errorf(ErrReserved, "AETH: %v", p.AETH.Syndrome)
	case o == CNP && len(p.Payload) != CNPLen:
		return errorf(ErrReserved, "CNP with %d bytes after the BTH, want %d", len(p.Payload), CNPLen)
	}
	if o == CNP {
		for i, c := range p.Payload {
			if c != 0 {
				return errorf(ErrReserved, "CNP byte %d is %#02x", BTHLen+i, c)
			}
		}
	}
	for i, c := range p.Padding {
		if c != 0 {
			return errorf(ErrReserved, "pad byte %d is %#02x", i, c)
		}
	}
	return nil
}

// CNPLen is the length in bytes of the reserved field after the BTH of a congestion notification packet (annex A17).
const CNPLen = 16
