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

// PortCounters holds the counters of a port (16.1.3.5). A counter stops at its largest value. Data counters exclude
// link headers and CRCs.
type PortCounters struct {
	Reserved0                    uint8  // byte 0
	PortSelect                   uint8  // byte 1
	CounterSelect                uint16 // bytes 2-3: counters that a Set writes: Select…
	SymbolErrors                 uint16 // bytes 4-5
	LinkErrorRecovery            uint8  // byte 6
	LinkDowned                   uint8  // byte 7
	PortRcvErrors                uint16 // bytes 8-9
	PortRcvRemotePhysicalErrors  uint16 // bytes 10-11
	PortRcvSwitchRelayErrors     uint16 // bytes 12-13
	PortXmitDiscards             uint16 // bytes 14-15
	PortXmitConstraintErrors     uint8  // byte 16
	PortRcvConstraintErrors      uint8  // byte 17
	CounterSelect2               uint8  // byte 18: bit 0: PortXmitWait, bit 1: QP1Dropped; reserved before release 1.3
	LocalLinkIntegrityErrors     uint8  // byte 19, bits 7-4
	ExcessiveBufferOverrunErrors uint8  // byte 19, bits 3-0
	QP1Dropped                   uint16 // bytes 20-21
	VL15Dropped                  uint16 // bytes 22-23
	PortXmitData                 uint32 // bytes 24-27: units of 4 bytes
	PortRcvData                  uint32 // bytes 28-31: units of 4 bytes
	PortXmitPkts                 uint32 // bytes 32-35
	PortRcvPkts                  uint32 // bytes 36-39
	PortXmitWait                 uint32 // bytes 40-43: ticks with data to send but no credits; see PerfCapXmitWait
}

// Put writes the attribute to b[:PortCountersLen]. It panics if b is shorter.
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

// Parse reads the attribute from b[:PortCountersLen]. It panics if b is shorter.
func (p *PortCounters) Parse(b []byte) {
	_ = b[PortCountersLen-1]
	*p = PortCounters{
		Reserved0: b[0], PortSelect: b[1], CounterSelect: be.Uint16(b[2:]), SymbolErrors: be.Uint16(b[4:]),
		LinkErrorRecovery: b[6],
		LinkDowned:        b[7], PortRcvErrors: be.Uint16(b[8:]), PortRcvRemotePhysicalErrors: be.Uint16(b[10:]),
		PortRcvSwitchRelayErrors: be.Uint16(b[12:]), PortXmitDiscards: be.Uint16(b[14:]),
		PortXmitConstraintErrors: b[16],
		PortRcvConstraintErrors:  b[17], CounterSelect2: b[18], LocalLinkIntegrityErrors: b[19] >> 4,
		ExcessiveBufferOverrunErrors: b[19] & 15, QP1Dropped: be.Uint16(b[20:]), VL15Dropped: be.Uint16(b[22:]),
		PortXmitData: be.Uint32(b[24:]), PortRcvData: be.Uint32(b[28:]), PortXmitPkts: be.Uint32(b[32:]),
		PortRcvPkts:  be.Uint32(b[36:]),
		PortXmitWait: be.Uint32(b[40:]),
	}
}
