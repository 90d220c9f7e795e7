package mad

// PortCountersLen is the length of a PortCounters in bytes.
const PortCountersLen = 44

// Bits of PortCounters.CounterSelect: the counters that a Set writes (16.1.3.5, table 220).
const (
	SelectSymbolError         uint16 = 1 << 0
	SelectLinkErrorRecovery   uint16 = 1 << 1
	SelectLinkDowned          uint16 = 1 << 2
	SelectRcvErrors           uint16 = 1 << 3
	SelectRcvRemotePhysErrors uint16 = 1 << 4
	SelectRcvSwitchRelay      uint16 = 1 << 5
	SelectXmitDiscards        uint16 = 1 << 6
	SelectXmitConstraint      uint16 = 1 << 7
	SelectRcvConstraint       uint16 = 1 << 8
	SelectLocalLinkIntegrity  uint16 = 1 << 9
	SelectExcessiveOverrun    uint16 = 1 << 10
	SelectVL15Dropped         uint16 = 1 << 11
	SelectXmitData            uint16 = 1 << 12
	SelectRcvData             uint16 = 1 << 13
	SelectXmitPkts            uint16 = 1 << 14
	SelectRcvPkts             uint16 = 1 << 15
)

// PortCounters counts what a port has done (16.1.3.5). A counter stops at its largest value. Data are counted in units of four bytes,
// link headers and CRCs apart. Bits are listed from the most significant.
//
//	byte 0     reserved                          byte 18    counter select 2
//	byte 1     port select                       byte 19    local link integrity errors 4,
//	byte 2:2   counter select                               excessive buffer overrun errors 4
//	byte 4:2   symbol errors                     byte 20:2  QP1 dropped
//	byte 6     link error recoveries             byte 22:2  VL15 dropped
//	byte 7     link downed                       byte 24:4  transmitted data
//	byte 8:2   receive errors                    byte 28:4  received data
//	byte 10:2  receive remote physical errors    byte 32:4  transmitted packets
//	byte 12:2  receive switch relay errors       byte 36:4  received packets
//	byte 14:2  transmit discards                 byte 40:4  transmit wait
//	byte 16    transmit constraint errors
//	byte 17    receive constraint errors
type PortCounters struct {
	Reserved0                    uint8
	PortSelect                   uint8
	CounterSelect                uint16
	SymbolErrors                 uint16
	LinkErrorRecovery            uint8
	LinkDowned                   uint8
	PortRcvErrors                uint16
	PortRcvRemotePhysicalErrors  uint16
	PortRcvSwitchRelayErrors     uint16
	PortXmitDiscards             uint16
	PortXmitConstraintErrors     uint8
	PortRcvConstraintErrors      uint8
	CounterSelect2               uint8 // bit 0: PortXmitWait, bit 1: QP1Dropped; reserved in earlier editions
	LocalLinkIntegrityErrors     uint8 // four bits
	ExcessiveBufferOverrunErrors uint8 // four bits
	QP1Dropped                   uint16
	VL15Dropped                  uint16
	PortXmitData                 uint32
	PortRcvData                  uint32
	PortXmitPkts                 uint32
	PortRcvPkts                  uint32
	PortXmitWait                 uint32 // ticks with data to send and no credit; see PerfCapXmitWait
}

// Put writes the attribute to b[:PortCountersLen]; b must be that long.
func (p *PortCounters) Put(b []byte) {
	_ = b[PortCountersLen-1]
	b[0], b[1] = p.Reserved0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint16(b[4:], p.SymbolErrors)
	b[6], b[7] = p.LinkErrorRecovery, p.LinkDowned
	be.PutUint16(b[8:], p.PortRcvErrors)
	be.PutUint16(b[10:], p.PortRcvRemotePhysicalErrors)
	be.PutUint16(b[12:], p.PortRcvSwitchRelayErrors)
	be.PutUint16(b[14:], p.PortXmitDiscards)
	b[16], b[17], b[18] = p.PortXmitConstraintErrors, p.PortRcvConstraintErrors, p.CounterSelect2
	b[19] = p.LocalLinkIntegrityErrors<<4 | p.ExcessiveBufferOverrunErrors&15
	be.PutUint16(b[20:], p.QP1Dropped)
	be.PutUint16(b[22:], p.VL15Dropped)
	be.PutUint32(b[24:], p.PortXmitData)
	be.PutUint32(b[28:], p.PortRcvData)
	be.PutUint32(b[32:], p.PortXmitPkts)
	be.PutUint32(b[36:], p.PortRcvPkts)
	be.PutUint32(b[40:], p.PortXmitWait)
}

// Parse reads the attribute from b[:PortCountersLen]; b must be that long.
func (p *PortCounters) Parse(b []byte) {
	_ = b[PortCountersLen-1]
	*p = PortCounters{
		Reserved0: b[0], PortSelect: b[1], CounterSelect: be.Uint16(b[2:]), SymbolErrors: be.Uint16(b[4:]), LinkErrorRecovery: b[6],
		LinkDowned: b[7], PortRcvErrors: be.Uint16(b[8:]), PortRcvRemotePhysicalErrors: be.Uint16(b[10:]),
		PortRcvSwitchRelayErrors: be.Uint16(b[12:]), PortXmitDiscards: be.Uint16(b[14:]), PortXmitConstraintErrors: b[16],
		PortRcvConstraintErrors: b[17], CounterSelect2: b[18], LocalLinkIntegrityErrors: b[19] >> 4,
		ExcessiveBufferOverrunErrors: b[19] & 15, QP1Dropped: be.Uint16(b[20:]), VL15Dropped: be.Uint16(b[22:]),
		PortXmitData: be.Uint32(b[24:]), PortRcvData: be.Uint32(b[28:]), PortXmitPkts: be.Uint32(b[32:]), PortRcvPkts: be.Uint32(b[36:]),
		PortXmitWait: be.Uint32(b[40:]),
	}
}

// Check returns an *Error that names the first field that no sender may send so: ErrRange, ErrReserved.
func (p *PortCounters) Check() error {
	c := checker{layout: "PortCounters"}
	c.zero("Reserved0", uint64(p.Reserved0))
	c.fits("LocalLinkIntegrityErrors", uint64(p.LocalLinkIntegrityErrors), 4)
	c.fits("ExcessiveBufferOverrunErrors", uint64(p.ExcessiveBufferOverrunErrors), 4)
	return c.err
}
