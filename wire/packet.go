package wire

import "encoding/binary"

// ICRCLen is the length of the invariant CRC that ends every packet, in bytes.
const ICRCLen = 4

// MaxHeaderLen is the longest BTH with extension headers, in bytes: that of an RD atomic.
const MaxHeaderLen = BTHLen + RDETHLen + DETHLen + AtomicETHLen

// Packet is a transport packet, BTH to ICRC, taken apart. Of the extension headers those that the opcode has are meaningful;
// ParsePacket leaves the others zero.
type Packet struct {
	BTH          BTH
	DETH         DETH
	RETH         RETH
	AtomicETH    AtomicETH
	AETH         AETH
	AtomicAckETH AtomicAckETH
	ImmDt        ImmDt
	IETH         IETH
	Payload      []byte // without pad; after ParsePacket a part of its argument
	Padding      []byte // the BTH.Pad bytes behind the payload, likewise; zeros from a sender that keeps the rules
	ICRC         uint32 // stored least significant byte first; see ICRC
}

// ParsePacket takes b apart: what a UDP datagram carries, or an InfiniBand packet from the BTH to before the VCRC. It checks all
// that can be told from b alone, but neither reserved bits and pad bytes, which a receiver ignores (see CheckReserved), nor the
// ICRC, which covers headers outside b. It allocates only to make an error.
//
// Errors are an *Error around ErrShort, ErrLength, ErrVersion, ErrOpcode, ErrPad or ErrPayload, judged in that order. With ErrPad
// and ErrPayload the headers in p are good (a responder may have to answer with a NAK), with ErrVersion and ErrOpcode the BTH is.
func ParsePacket(b []byte, p *Packet) error {
	*p = Packet{}
	if len(b) < BTHLen+ICRCLen {
		return errorf(ErrShort, "%d bytes, BTH and ICRC need %d", len(b), BTHLen+ICRCLen)
	}
	if len(b)%4 != 0 {
		return errorf(ErrLength, "%d bytes, not a multiple of 4", len(b))
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
		return errorf(ErrShort, "%d bytes, %v needs %d", len(b), p.BTH.Opcode, n+ICRCLen)
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

// parseExtensions reads the headers behind the BTH; b is as long as they are together.
func (p *Packet) parseExtensions(b []byte, flags uint16) {
	if flags&flagDETH != 0 {
		p.DETH.Parse(b)
		b = b[DETHLen:]
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

// PutHeaders writes the BTH as it stands and the extension headers of its opcode to b and returns their length,
// BTH.Opcode.HeaderLen(). b must have room for them; MaxHeaderLen always suffices. An opcode that is not Valid gets what is known
// of it: RD its headers without contents in the RDETH, an undefined one a BTH only.
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

// AppendPacket appends the packet to dst: headers, payload, pad and ICRC. It sets p.BTH.Pad to what the payload needs and writes
// zeros there, whatever p.Padding holds; the ICRC is p.ICRC, since computing it takes headers that are not p's.
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

// PadLen is the number of pad bytes, 0-3, that follow n bytes of payload.
func PadLen(n int) uint8 { return uint8(-n & 3) }

// PacketLen is the length of a packet with an opcode and n bytes of payload: headers, payload, pad and ICRC.
func PacketLen(o Opcode, n int) int { return o.HeaderLen() + n + int(PadLen(n)) + ICRCLen }

// CheckReserved returns an *Error around ErrReserved if the packet has a reserved bit, a reserved AETH syndrome or a pad byte that
// a sender must leave zero but did not. Receivers must not use it to drop packets, since they ignore reserved fields; it is for
// tools that judge a sender.
func (p *Packet) CheckReserved() error {
	o := p.BTH.Opcode
	switch {
	case p.BTH.Resv6 != 0:
		return errorf(ErrReserved, "BTH byte 4 has reserved bits %#02x", p.BTH.Resv6)
	case p.BTH.Resv7 != 0:
		return errorf(ErrReserved, "BTH byte 8 has reserved bits %#02x", p.BTH.Resv7)
	case o.HasDETH() && p.DETH.Resv8 != 0:
		return errorf(ErrReserved, "DETH byte 4 is %#02x", p.DETH.Resv8)
	case o.HasAETH() && p.AETH.Syndrome.Reserved():
		return errorf(ErrReserved, "AETH: %v", p.AETH.Syndrome)
	case o == CNP && len(p.Payload) != CNPLen:
		return errorf(ErrReserved, "CNP with %d bytes behind the BTH, want %d", len(p.Payload), CNPLen)
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

// CNPLen is the length in bytes of the reserved field behind the BTH of a congestion notification packet (annex A17).
const CNPLen = 16
