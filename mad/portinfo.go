package mad

import "encoding/binary"

// PortInfoLen is the length of a PortInfo in bytes.
const PortInfoLen = 64

// PortInfo is a port's state and capabilities (14.2.5.6). Bits are listed from the most significant.
//
//	byte 0:8   M_Key                         byte 36    neighbor MTU 4, master SM SL 4
//	byte 8:8   GID prefix                    byte 37    VL cap 4, init type 4
//	byte 16:2  LID                           byte 38    VL high limit
//	byte 18:2  master SM LID                 byte 39    VL arbitration high cap
//	byte 20:4  capability mask               byte 40    VL arbitration low cap
//	byte 24:2  diagnostic code               byte 41    init type reply 4, MTU cap 4
//	byte 26:2  M_Key lease period            byte 42    VL stall count 3, head of queue life 5
//	byte 28    local port number             byte 43    operational VLs 4, partition enforcement and raw filter 4
//	byte 29    link width enabled            byte 44:2  M_Key violations
//	byte 30    link width supported          byte 46:2  P_Key violations
//	byte 31    link width active             byte 48:2  Q_Key violations
//	byte 32    speed supported 4, state 4    byte 50    GUID cap
//	byte 33    physical state 4,             byte 51    client reregister 1, multicast P_Key trap suppression 2, subnet timeout 5
//	           link down default 4           byte 52    reserved 3, response time 5
//	byte 34    M_Key protection 2,           byte 53    local PHY errors 4, overrun errors 4
//	           reserved 3, LMC 3             byte 54:2  max credit hint
//	byte 35    speed active 4, enabled 4     byte 56:4  reserved 8, round trip latency 24
//	                                         byte 60:2  capability mask 2
//	                                         byte 62    extended speed active 4, supported 4
//	                                         byte 63    reserved 3, extended speed enabled 5
type PortInfo struct {
	MKey             uint64
	GIDPrefix        uint64
	LID              uint16
	MasterSMLID      uint16
	CapabilityMask   uint32
	DiagCode         uint16
	MKeyLease        uint16 // seconds
	LocalPortNum     uint8
	WidthEnabled     uint8
	WidthSupported   uint8
	WidthActive      uint8
	SpeedSupported   uint8
	State            uint8 // 1 Down, 2 Init, 3 Armed, 4 Active; in a Set 0 for no change
	PhysState        uint8
	LinkDownDefault  uint8
	MKeyProtect      uint8
	ReservedLMC      uint8 // three bits
	LMC              uint8
	SpeedActive      uint8
	SpeedEnabled     uint8
	NeighborMTU      uint8
	MasterSMSL       uint8
	VLCap            uint8
	InitType         uint8
	VLHighLimit      uint8
	VLArbHighCap     uint8
	VLArbLowCap      uint8
	InitTypeReply    uint8
	MTUCap           uint8
	VLStallCount     uint8
	HOQLife          uint8
	OperationalVLs   uint8
	Enforce          uint8 // partition in, out, raw filter in, out
	MKeyViolations   uint16
	PKeyViolations   uint16
	QKeyViolations   uint16
	GUIDCap          uint8
	ClientReregister bool
	McastTrapSupp    uint8
	SubnetTimeout    uint8
	ReservedResp     uint8 // three bits
	RespTimeValue    uint8
	LocalPhyErrors   uint8
	OverrunErrors    uint8
	MaxCreditHint    uint16
	ReservedLatency  uint8
	RoundTripLatency uint32 // 24 bits
	CapabilityMask2  uint16
	SpeedExtActive   uint8
	SpeedExtSupp     uint8
	ReservedSpeedExt uint8 // three bits
	SpeedExtEnabled  uint8
}

// Put writes it to b[:PortInfoLen]; b must be that long. Bits beyond a field's width are cut off.
func (p *PortInfo) Put(b []byte) {
	_ = b[PortInfoLen-1]
	be := binary.BigEndian
	be.PutUint64(b[0:], p.MKey)
	be.PutUint64(b[8:], p.GIDPrefix)
	be.PutUint16(b[16:], p.LID)
	be.PutUint16(b[18:], p.MasterSMLID)
	be.PutUint32(b[20:], p.CapabilityMask)
	be.PutUint16(b[24:], p.DiagCode)
	be.PutUint16(b[26:], p.MKeyLease)
	b[28], b[29], b[30], b[31] = p.LocalPortNum, p.WidthEnabled, p.WidthSupported, p.WidthActive
	b[32] = p.SpeedSupported<<4 | p.State&15
	b[33] = p.PhysState<<4 | p.LinkDownDefault&15
	b[34] = p.MKeyProtect<<6 | p.ReservedLMC&7<<3 | p.LMC&7
	b[35] = p.SpeedActive<<4 | p.SpeedEnabled&15
	b[36] = p.NeighborMTU<<4 | p.MasterSMSL&15
	b[37] = p.VLCap<<4 | p.InitType&15
	b[38], b[39], b[40] = p.VLHighLimit, p.VLArbHighCap, p.VLArbLowCap
	b[41] = p.InitTypeReply<<4 | p.MTUCap&15
	b[42] = p.VLStallCount<<5 | p.HOQLife&31
	b[43] = p.OperationalVLs<<4 | p.Enforce&15
	be.PutUint16(b[44:], p.MKeyViolations)
	be.PutUint16(b[46:], p.PKeyViolations)
	be.PutUint16(b[48:], p.QKeyViolations)
	b[50] = p.GUIDCap
	b[51] = p.McastTrapSupp&3<<5 | p.SubnetTimeout&31
	if p.ClientReregister {
		b[51] |= 0x80
	}
	b[52] = p.ReservedResp<<5 | p.RespTimeValue&31
	b[53] = p.LocalPhyErrors<<4 | p.OverrunErrors&15
	be.PutUint16(b[54:], p.MaxCreditHint)
	be.PutUint32(b[56:], uint32(p.ReservedLatency)<<24|p.RoundTripLatency&0xffffff)
	be.PutUint16(b[60:], p.CapabilityMask2)
	b[62] = p.SpeedExtActive<<4 | p.SpeedExtSupp&15
	b[63] = p.ReservedSpeedExt<<5 | p.SpeedExtEnabled&31
}

// Parse reads it from b[:PortInfoLen]; b must be that long.
func (p *PortInfo) Parse(b []byte) {
	_ = b[PortInfoLen-1]
	be := binary.BigEndian
	*p = PortInfo{
		MKey: be.Uint64(b[0:]), GIDPrefix: be.Uint64(b[8:]), LID: be.Uint16(b[16:]), MasterSMLID: be.Uint16(b[18:]),
		CapabilityMask: be.Uint32(b[20:]), DiagCode: be.Uint16(b[24:]), MKeyLease: be.Uint16(b[26:]),
		LocalPortNum: b[28], WidthEnabled: b[29], WidthSupported: b[30], WidthActive: b[31],
		SpeedSupported: b[32] >> 4, State: b[32] & 15, PhysState: b[33] >> 4, LinkDownDefault: b[33] & 15,
		MKeyProtect: b[34] >> 6, ReservedLMC: b[34] >> 3 & 7, LMC: b[34] & 7, SpeedActive: b[35] >> 4, SpeedEnabled: b[35] & 15,
		NeighborMTU: b[36] >> 4, MasterSMSL: b[36] & 15, VLCap: b[37] >> 4, InitType: b[37] & 15,
		VLHighLimit: b[38], VLArbHighCap: b[39], VLArbLowCap: b[40], InitTypeReply: b[41] >> 4, MTUCap: b[41] & 15,
		VLStallCount: b[42] >> 5, HOQLife: b[42] & 31, OperationalVLs: b[43] >> 4, Enforce: b[43] & 15,
		MKeyViolations: be.Uint16(b[44:]), PKeyViolations: be.Uint16(b[46:]), QKeyViolations: be.Uint16(b[48:]), GUIDCap: b[50],
		ClientReregister: b[51]&0x80 != 0, McastTrapSupp: b[51] >> 5 & 3, SubnetTimeout: b[51] & 31,
		ReservedResp: b[52] >> 5, RespTimeValue: b[52] & 31, LocalPhyErrors: b[53] >> 4, OverrunErrors: b[53] & 15,
		MaxCreditHint: be.Uint16(b[54:]), ReservedLatency: b[56], RoundTripLatency: be.Uint32(b[56:]) & 0xffffff,
		CapabilityMask2: be.Uint16(b[60:]), SpeedExtActive: b[62] >> 4, SpeedExtSupp: b[62] & 15,
		ReservedSpeedExt: b[63] >> 5, SpeedExtEnabled: b[63] & 31,
	}
}

// Check returns an *Error that names the first field that no sender may send so: ErrRange, ErrReserved. Which values a Set may ask for is
// the agent's to judge.
func (p *PortInfo) Check() error {
	c := checker{layout: "PortInfo"}
	p.check(&c, "")
	return c.err
}

func (p *PortInfo) check(c *checker, in string) {
	c.fits(in+"SpeedSupported", uint64(p.SpeedSupported), 4)
	c.fits(in+"State", uint64(p.State), 4)
	c.fits(in+"PhysState", uint64(p.PhysState), 4)
	c.fits(in+"LinkDownDefault", uint64(p.LinkDownDefault), 4)
	c.fits(in+"MKeyProtect", uint64(p.MKeyProtect), 2)
	c.fits(in+"LMC", uint64(p.LMC), 3)
	c.fits(in+"SpeedActive", uint64(p.SpeedActive), 4)
	c.fits(in+"SpeedEnabled", uint64(p.SpeedEnabled), 4)
	c.fits(in+"NeighborMTU", uint64(p.NeighborMTU), 4)
	c.fits(in+"MasterSMSL", uint64(p.MasterSMSL), 4)
	c.fits(in+"VLCap", uint64(p.VLCap), 4)
	c.fits(in+"InitType", uint64(p.InitType), 4)
	c.fits(in+"InitTypeReply", uint64(p.InitTypeReply), 4)
	c.fits(in+"MTUCap", uint64(p.MTUCap), 4)
	c.fits(in+"VLStallCount", uint64(p.VLStallCount), 3)
	c.fits(in+"HOQLife", uint64(p.HOQLife), 5)
	c.fits(in+"OperationalVLs", uint64(p.OperationalVLs), 4)
	c.fits(in+"Enforce", uint64(p.Enforce), 4)
	c.fits(in+"McastTrapSupp", uint64(p.McastTrapSupp), 2)
	c.fits(in+"SubnetTimeout", uint64(p.SubnetTimeout), 5)
	c.fits(in+"RespTimeValue", uint64(p.RespTimeValue), 5)
	c.fits(in+"LocalPhyErrors", uint64(p.LocalPhyErrors), 4)
	c.fits(in+"OverrunErrors", uint64(p.OverrunErrors), 4)
	c.fits(in+"RoundTripLatency", uint64(p.RoundTripLatency), 24)
	c.fits(in+"SpeedExtActive", uint64(p.SpeedExtActive), 4)
	c.fits(in+"SpeedExtSupp", uint64(p.SpeedExtSupp), 4)
	c.fits(in+"SpeedExtEnabled", uint64(p.SpeedExtEnabled), 5)
	c.zero(in+"ReservedLMC", uint64(p.ReservedLMC))
	c.zero(in+"ReservedResp", uint64(p.ReservedResp))
	c.zero(in+"ReservedLatency", uint64(p.ReservedLatency))
	c.zero(in+"ReservedSpeedExt", uint64(p.ReservedSpeedExt))
}
