package mad

// cmPathLen is the length of a path in REQ and LAP, in bytes.
const cmPathLen = 44

// CMPath is a path as REQ and LAP describe it, seen from their sender: local is the sender's end.
type CMPath struct {
	LocalLID     uint16 // permissive (0xffff) where LIDs mean nothing, as on RoCE
	RemoteLID    uint16
	LocalGID     [16]byte
	RemoteGID    [16]byte
	FlowLabel    uint32 // 20 bits
	ReservedFlow uint8  // six bits: REQ has them between flow label and rate, LAP four behind the flow label, two before the rate
	Rate         Rate   // six bits
	TrafficClass uint8
	HopLimit     uint8
	SL           uint8 // four bits
	SubnetLocal  bool  // both ends in one subnet, no GRH needed
	ReservedSL   uint8 // three bits
	AckTimeout   TimeExp
	ReservedAck  uint8 // three bits
}

// put writes REQ's form of the path.
//
//	byte 0:2    local LID
//	byte 2:2    remote LID
//	byte 4:16   local GID
//	byte 20:16  remote GID
//	byte 36:4   flow label 20, reserved 6, rate 6
//	byte 40     traffic class
//	byte 41     hop limit
//	byte 42     SL 4, subnet local 1, reserved 3
//	byte 43     ACK timeout 5, reserved 3
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

// putLAP writes LAP's form, which differs in the middle.
//
//	byte 36:3  flow label 20, reserved 4
//	byte 39    traffic class
//	byte 40    hop limit
//	byte 41    reserved 2, rate 6
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
