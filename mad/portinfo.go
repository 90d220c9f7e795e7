package mad

import "encoding/binary"

// PortInfoLen is the length of a PortInfo in bytes.
const PortInfoLen = 64

// PortInfo is the state and the capabilities of a port (14.2.5.6).
type PortInfo struct {
	MKey             uint64 // bytes 0-7: M_Key
	GIDPrefix        uint64 // bytes 8-15
	LID              uint16 // bytes 16-17
	MasterSMLID      uint16 // bytes 18-19: LID of the master subnet manager
	CapabilityMask   uint32 // bytes 20-23
	DiagCode         uint16 // bytes 24-25: diagnostic code
	MKeyLease        uint16 // bytes 26-27: M_Key lease period, seconds
	LocalPortNum     uint8  // byte 28
	WidthEnabled     uint8  // byte 29: link width
	WidthSupported   uint8  // byte 30
	WidthActive      uint8  // byte 31
	SpeedSupported   uint8  // byte 32, bits 7-4
	State            uint8  // byte 32, bits 3-0: 1 Down, 2 Init, 3 Armed, 4 Active; 0 in a Set makes no change
	PhysState        uint8  // byte 33, bits 7-4
	LinkDownDefault  uint8  // byte 33, bits 3-0: link down default state
	MKeyProtect      uint8  // byte 34, bits 7-6: M_Key protection level
	ReservedLMC      uint8  // byte 34, bits 5-3
	LMC              uint8  // byte 34, bits 2-0
	SpeedActive      uint8  // byte 35, bits 7-4
	SpeedEnabled     uint8  // byte 35, bits 3-0
	NeighborMTU      uint8  // byte 36, bits 7-4
	MasterSMSL       uint8  // byte 36, bits 3-0: SL to the master subnet manager
	VLCap            uint8  // byte 37, bits 7-4: supported virtual lanes, as a code
	InitType         uint8  // byte 37, bits 3-0: initialization type
	VLHighLimit      uint8  // byte 38: limit of high priority
	VLArbHighCap     uint8  // byte 39: entries in the high priority VL arbitration table
	VLArbLowCap      uint8  // byte 40: entries in the low priority VL arbitration table
	InitTypeReply    uint8  // byte 41, bits 7-4
	MTUCap           uint8  // byte 41, bits 3-0: largest MTU
	VLStallCount     uint8  // byte 42, bits 7-5
	HOQLife          uint8  // byte 42, bits 4-0: head of queue lifetime
	OperationalVLs   uint8  // byte 43, bits 7-4: virtual lanes in use, as a code
	Enforce          uint8  // byte 43, bits 3-0: partition enforcement inbound, outbound; raw filter inbound, outbound
	MKeyViolations   uint16 // bytes 44-45
	PKeyViolations   uint16 // bytes 46-47
	QKeyViolations   uint16 // bytes 48-49
	GUIDCap          uint8  // byte 50: entries in the GUID table
	ClientReregister bool   // byte 51, bit 7
	McastTrapSupp    uint8  // byte 51, bits 6-5: multicast P_Key trap suppression
	SubnetTimeout    uint8  // byte 51, bits 4-0
	ReservedResp     uint8  // byte 52, bits 7-5
	RespTimeValue    uint8  // byte 52, bits 4-0: response time
	LocalPhyErrors   uint8  // byte 53, bits 7-4: threshold
	OverrunErrors    uint8  // byte 53, bits 3-0: threshold
	MaxCreditHint    uint16 // bytes 54-55
	ReservedLatency  uint8  // byte 56
	RoundTripLatency uint32 // bytes 57-59
	CapabilityMask2  uint16 // bytes 60-61
	SpeedExtActive   uint8  // byte 62, bits 7-4
	SpeedExtSupp     uint8  // byte 62, bits 3-0
	ReservedSpeedExt uint8  // byte 63, bits 7-5
	SpeedExtEnabled  uint8  // byte 63, bits 4-0
}

// Put writes the attribute to b[:PortInfoLen]. It panics if b is shorter. Bits beyond a field's width are dropped.
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
	b[28] = p.LocalPortNum
	b[29], b[30], b[31] = p.WidthEnabled, p.WidthSupported, p.WidthActive
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

// Parse reads the attribute from b[:PortInfoLen]. It panics if b is shorter.
func (p *PortInfo) Parse(b []byte) {
	_ = b[PortInfoLen-1]
	be := binary.BigEndian
	*p = PortInfo{
		MKey: be.Uint64(b[0:]), GIDPrefix: be.Uint64(b[8:]), LID: be.Uint16(b[16:]), MasterSMLID: be.Uint16(b[18:]),
		CapabilityMask: be.Uint32(b[20:]), DiagCode: be.Uint16(b[24:]), MKeyLease: be.Uint16(b[26:]),
		LocalPortNum: b[28], WidthEnabled: b[29], WidthSupported: b[30], WidthActive: b[31],
		SpeedSupported: b[32] >> 4, State: b[32] & 15, PhysState: b[33] >> 4, LinkDownDefault: b[33] & 15,
		MKeyProtect: b[34] >> 6, ReservedLMC: b[34] >> 3 & 7, LMC: b[34] & 7, SpeedActive: b[35] >> 4,
		SpeedEnabled: b[35] & 15,
		NeighborMTU:  b[36] >> 4, MasterSMSL: b[36] & 15, VLCap: b[37] >> 4, InitType: b[37] & 15,
		VLHighLimit: b[38], VLArbHighCap: b[39], VLArbLowCap: b[40], InitTypeReply: b[41] >> 4, MTUCap: b[41] & 15,
		VLStallCount: b[42] >> 5, HOQLife: b[42] & 31, OperationalVLs: b[43] >> 4, Enforce: b[43] & 15,
		MKeyViolations: be.Uint16(b[44:]), PKeyViolations: be.Uint16(b[46:]), QKeyViolations: be.Uint16(b[48:]),
		GUIDCap:          b[50],
		ClientReregister: b[51]&0x80 != 0, McastTrapSupp: b[51] >> 5 & 3, SubnetTimeout: b[51] & 31,
		ReservedResp: b[52] >> 5, RespTimeValue: b[52] & 31, LocalPhyErrors: b[53] >> 4, OverrunErrors: b[53] & 15,
		MaxCreditHint: be.Uint16(b[54:]), ReservedLatency: b[56], RoundTripLatency: be.Uint32(b[56:]) & 0xffffff,
		CapabilityMask2: be.Uint16(b[60:]), SpeedExtActive: b[62] >> 4, SpeedExtSupp: b[62] & 15,
		ReservedSpeedExt: b[63] >> 5, SpeedExtEnabled: b[63] & 31,
	}
}
