package wire

import "encoding/binary"

// LinkPacket is a packet of an InfiniBand link, from LRH to VCRC (IBTA vol 1, ch. 5).
type LinkPacket struct {
	LRH    LRH
	GRH    GRH // if Global returns true
	Packet Packet
	VCRC   VCRC
}

// Global reports whether the packet has a GRH.
func (p *LinkPacket) Global() bool { return p.LRH.LNH == LNHGlobal }

// ParseLinkPacket parses b, which must contain exactly one packet, from LRH to VCRC. It does not check the CRCs; see
// CheckLinkCRC. It allocates only errors.
//
// Errors: ErrShort; ErrVersion for an unknown link version; ErrLength if the lengths in LRH or GRH do not match len(b);
// ErrLinkLayer for raw packets; those of GRH.Parse; those of ParsePacket, which also describes the state of p.Packet
// after an error.
func ParseLinkPacket(b []byte, p *LinkPacket) error {
	*p = LinkPacket{}
	if len(b) < LRHLen+BTHLen+ICRCLen+VCRCLen {
		return errorf(ErrShort, "%d bytes, want at least %d for an IBA packet", len(b), LRHLen+BTHLen+ICRCLen+VCRCLen)
	}
	p.LRH.Parse(b)
	p.VCRC = VCRC(binary.LittleEndian.Uint16(b[len(b)-VCRCLen:]))
	if p.LRH.LVer != 0 {
		return errorf(ErrVersion, "link version %d, want 0", p.LRH.LVer)
	}
	if n := 4*int(p.LRH.PktLen) + VCRCLen; n != len(b) {
		return errorf(ErrLength, "LRH packet length %d (%d bytes with VCRC), got %d bytes", p.LRH.PktLen, n, len(b))
	}
	rest := b[LRHLen : len(b)-VCRCLen]
	switch p.LRH.LNH {
	case LNHLocal:
	case LNHGlobal:
		if err := p.GRH.Parse(rest); err != nil {
			return err
		}
		rest = rest[GRHLen:]
		if int(p.GRH.PayloadLen) != len(rest) {
			return errorf(ErrLength, "GRH payload length %d, got %d bytes", p.GRH.PayloadLen, len(rest))
		}
	default:
		return errorf(ErrLinkLayer, "raw packet, LNH %d", p.LRH.LNH)
	}
	return ParsePacket(rest, &p.Packet)
}

// startICRC returns the ICRC of the headers in front of the BTH.
func (p *LinkPacket) startICRC() ICRC {
	if p.Global() {
		return StartGRH(&p.GRH)
	}
	return StartLRH(&p.LRH)
}

// CheckLinkCRC returns ErrChecksum if b has a wrong VCRC or ICRC. p must be the result of ParseLinkPacket for b.
func CheckLinkCRC(b []byte, p *LinkPacket) error {
	if c := VCRC(0).Update(b[:len(b)-VCRCLen]); c != p.VCRC {
		return errorf(ErrChecksum, "VCRC %#04x, computed %#04x", uint16(p.VCRC), uint16(c))
	}
	n := LRHLen
	if p.Global() {
		n += GRHLen
	}
	if c := p.startICRC().Transport(b[n : len(b)-VCRCLen-ICRCLen]); uint32(c) != p.Packet.ICRC {
		return errorf(ErrChecksum, "ICRC %#08x, computed %#08x", p.Packet.ICRC, uint32(c))
	}
	return nil
}

// AppendLinkPacket appends the packet to dst. It computes the lengths in LRH and GRH, the next header of the GRH, the
// pad count and both CRCs, and sets them in p, too. p.LRH.LNH must be LNHLocal or LNHGlobal.
func AppendLinkPacket(dst []byte, p *LinkPacket) []byte {
	n := PacketLen(p.Packet.BTH.Opcode, len(p.Packet.Payload))
	start := len(dst)
	var h [LRHLen + GRHLen]byte
	hdr := h[:LRHLen]
	if p.Global() {
		hdr = h[:]
		p.GRH.NextHeader, p.GRH.PayloadLen = NextHeaderIBA, uint16(n)
		p.GRH.Put(hdr[LRHLen:])
	}
	p.LRH.PktLen = uint16((len(hdr) + n) / 4)
	p.LRH.Put(hdr)
	dst = append(dst, hdr...)
	dst = appendSealed(dst, &p.Packet, p.startICRC())
	p.VCRC = VCRC(0).Update(dst[start:])
	return binary.LittleEndian.AppendUint16(dst, uint16(p.VCRC))
}

// appendSealed is like AppendPacket, but computes the ICRC.
func appendSealed(dst []byte, p *Packet, start ICRC) []byte {
	at := len(dst)
	dst = AppendPacket(dst, p)
	end := len(dst) - ICRCLen
	c := start.Transport(dst[at:end])
	p.ICRC = uint32(c)
	c.Put(dst[end:])
	return dst
}
