package mad

// cmPathLen is the length of a path in REQ and LAP, in bytes.
const cmPathLen = 44

// CMPath is a path in a REQ or LAP. Local fields describe the sender's end. The byte numbers are relative to the path
// and those of REQ (table 106); a LAP differs in bytes 36 to 41 (see putLAP).
type CMPath struct {
	LocalLID     uint16   // bytes 0-1: permissive LID (0xffff) on RoCE
	RemoteLID    uint16   // bytes 2-3
	LocalGID     [16]byte // bytes 4-19
	RemoteGID    [16]byte // bytes 20-35
	FlowLabel    uint32   // byte 36, bit 7, to byte 38, bit 4
	ReservedFlow uint8    // byte 38, bit 3, to byte 39, bit 6
	Rate         Rate     // byte 39, bits 5-0
	TrafficClass uint8    // byte 40
	HopLimit     uint8    // byte 41
	SL           uint8    // byte 42, bits 7-4
	SubnetLocal  bool     // byte 42, bit 3: both ends are in one subnet, and no GRH is needed
	ReservedSL   uint8    // byte 42, bits 2-0
	AckTimeout   TimeExp  // byte 43, bits 7-3: local ACK timeout
	ReservedAck  uint8    // byte 43, bits 2-0
}

// put writes the path in the layout of a REQ.
func (p *CMPath) put(b []byte) {
	p.putEnds(b)
	be.PutUint32(b[36:], p.FlowLabel<<12|uint32(p.ReservedFlow&0x3f)<<6|uint32(p.Rate&0x3f))
	b[40], b[41] = p.TrafficClass, p.HopLimit
	p.putTail(b[42:])
}

func (p *CMPath) parse(b []byte) {
	p.parseEnds(b)
	w := be.Uint32(b[36:])
	p.FlowLabel, p.ReservedFlow, p.Rate = w>>12, uint8(w>>6&0x3f), Rate(w&0x3f)
	p.TrafficClass, p.HopLimit = b[40], b[41]
	p.parseTail(b[42:])
}

// putLAP writes the path in the layout of a LAP (table 116). It differs from that of a REQ in these bytes:
//
//	36-38  flow label (20 bits), first four reserved bits
//	39     traffic class
//	40     hop limit
//	41     last two reserved bits, rate (six bits)
func (p *CMPath) putLAP(b []byte) {
	p.putEnds(b)
	put24(b[36:], p.FlowLabel<<4|uint32(p.ReservedFlow>>2&15))
	b[39], b[40], b[41] = p.TrafficClass, p.HopLimit, p.ReservedFlow<<6|uint8(p.Rate&0x3f)
	p.putTail(b[42:])
}

func (p *CMPath) parseLAP(b []byte) {
	p.parseEnds(b)
	w := get24(b[36:])
	p.FlowLabel, p.ReservedFlow = w>>4, uint8(w&15)<<2|b[41]>>6
	p.TrafficClass, p.HopLimit, p.Rate = b[39], b[40], Rate(b[41]&0x3f)
	p.parseTail(b[42:])
}

func (p *CMPath) putEnds(b []byte) {
	be.PutUint16(b, p.LocalLID)
	be.PutUint16(b[2:], p.RemoteLID)
	copy(b[4:20], p.LocalGID[:])
	copy(b[20:36], p.RemoteGID[:])
}

func (p *CMPath) parseEnds(b []byte) {
	p.LocalLID, p.RemoteLID = be.Uint16(b), be.Uint16(b[2:])
	p.LocalGID, p.RemoteGID = [16]byte(b[4:20]), [16]byte(b[20:36])
}

func (p *CMPath) putTail(b []byte) {
	b[0] = p.SL<<4 | bit(p.SubnetLocal)<<3 | p.ReservedSL&7
	b[1] = uint8(p.AckTimeout)<<3 | p.ReservedAck&7
}

func (p *CMPath) parseTail(b []byte) {
	p.SL, p.SubnetLocal, p.ReservedSL = b[0]>>4, b[0]&8 != 0, b[0]&7
	p.AckTimeout, p.ReservedAck = TimeExp(b[1]>>3), b[1]&7
}

func (p *CMPath) check(c *checker, in string) {
	c.fits(in+"FlowLabel", uint64(p.FlowLabel), 20)
	c.zero(in+"ReservedFlow", uint64(p.ReservedFlow))
	c.fits(in+"Rate", uint64(p.Rate), 6)
	c.fits(in+"SL", uint64(p.SL), 4)
	c.zero(in+"ReservedSL", uint64(p.ReservedSL))
	c.fits(in+"AckTimeout", uint64(p.AckTimeout), 5)
	c.zero(in+"ReservedAck", uint64(p.ReservedAck))
}
