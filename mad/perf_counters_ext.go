package mad

// PortCountersExtendedLen is the length of a PortCountersExtended in bytes.
const PortCountersExtendedLen = 184

// Bits of PortCountersExtended.CounterSelect: the counters that a Set writes (16.1.4.11, table 260).
const (
	SelectExtXmitData          uint16 = 1 << 0
	SelectExtRcvData           uint16 = 1 << 1
	SelectExtXmitPkts          uint16 = 1 << 2
	SelectExtRcvPkts           uint16 = 1 << 3
	SelectExtUnicastXmitPkts   uint16 = 1 << 4
	SelectExtUnicastRcvPkts    uint16 = 1 << 5
	SelectExtMulticastXmitPkts uint16 = 1 << 6
	SelectExtMulticastRcvPkts  uint16 = 1 << 7
)

// PortCountersExtended holds the counters of PortCounters with 64 bits each (16.1.4.11). Release 1.3 added the counters
// from SymbolErrors on; a port without them sends zeros.
type PortCountersExtended struct {
	Reserved0      uint8  // byte 0
	PortSelect     uint8  // byte 1
	CounterSelect  uint16 // bytes 2-3: counters that a Set writes: SelectExt…
	CounterSelect2 uint32 // bytes 4-7: counters from SymbolErrors on that a Set writes; reserved before release 1.3

	PortXmitData          uint64 // bytes 8-15: units of 4 bytes
	PortRcvData           uint64 // bytes 16-23: units of 4 bytes
	PortXmitPkts          uint64 // bytes 24-31
	PortRcvPkts           uint64 // bytes 32-39
	PortUnicastXmitPkts   uint64 // bytes 40-47
	PortUnicastRcvPkts    uint64 // bytes 48-55
	PortMulticastXmitPkts uint64 // bytes 56-63
	PortMulticastRcvPkts  uint64 // bytes 64-71

	SymbolErrors                 uint64 // bytes 72-79
	LinkErrorRecovery            uint64 // bytes 80-87
	LinkDowned                   uint64 // bytes 88-95
	PortRcvErrors                uint64 // bytes 96-103
	PortRcvRemotePhysicalErrors  uint64 // bytes 104-111
	PortRcvSwitchRelayErrors     uint64 // bytes 112-119
	PortXmitDiscards             uint64 // bytes 120-127
	PortXmitConstraintErrors     uint64 // bytes 128-135
	PortRcvConstraintErrors      uint64 // bytes 136-143
	LocalLinkIntegrityErrors     uint64 // bytes 144-151
	ExcessiveBufferOverrunErrors uint64 // bytes 152-159
	VL15Dropped                  uint64 // bytes 160-167
	PortXmitWait                 uint64 // bytes 168-175
	QP1Dropped                   uint64 // bytes 176-183
}

// counters returns the counters in wire order.
func (p *PortCountersExtended) counters() [22]*uint64 {
	return [22]*uint64{&p.PortXmitData, &p.PortRcvData, &p.PortXmitPkts, &p.PortRcvPkts, &p.PortUnicastXmitPkts,
		&p.PortUnicastRcvPkts,
		&p.PortMulticastXmitPkts, &p.PortMulticastRcvPkts, &p.SymbolErrors, &p.LinkErrorRecovery, &p.LinkDowned,
		&p.PortRcvErrors,
		&p.PortRcvRemotePhysicalErrors, &p.PortRcvSwitchRelayErrors, &p.PortXmitDiscards, &p.PortXmitConstraintErrors,
		&p.PortRcvConstraintErrors, &p.LocalLinkIntegrityErrors, &p.ExcessiveBufferOverrunErrors, &p.VL15Dropped,
		&p.PortXmitWait,
		&p.QP1Dropped}
}

// Put writes the attribute to b[:PortCountersExtendedLen]. It panics if b is shorter.
func (p *PortCountersExtended) Put(b []byte) {
	_ = b[PortCountersExtendedLen-1]
	b[0], b[1] = p.Reserved0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.CounterSelect2)
	for i, c := range p.counters() {
		be.PutUint64(b[8+8*i:], *c)
	}
}

// Parse reads the attribute from b[:PortCountersExtendedLen]. It panics if b is shorter.
func (p *PortCountersExtended) Parse(b []byte) {
	_ = b[PortCountersExtendedLen-1]
	p.Reserved0, p.PortSelect = b[0], b[1]
	p.CounterSelect, p.CounterSelect2 = be.Uint16(b[2:]), be.Uint32(b[4:])
	for i, c := range p.counters() {
		*c = be.Uint64(b[8+8*i:])
	}
}
