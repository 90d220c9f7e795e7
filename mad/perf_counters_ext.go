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

// PortCountersExtended counts as PortCounters does, in 64 bits (16.1.4.11). The counters from SymbolErrors on came with a later edition;
// a port without them leaves zeros.
//
//	byte 0    reserved
//	byte 1    port select
//	byte 2:2  counter select
//	byte 4:4  counter select 2
//	byte 8    22 counters of 8 bytes each, in the order of the fields
type PortCountersExtended struct {
	Reserved0      uint8
	PortSelect     uint8
	CounterSelect  uint16
	CounterSelect2 uint32 // for the counters from SymbolErrors on; reserved in earlier editions

	PortXmitData          uint64
	PortRcvData           uint64
	PortXmitPkts          uint64
	PortRcvPkts           uint64
	PortUnicastXmitPkts   uint64
	PortUnicastRcvPkts    uint64
	PortMulticastXmitPkts uint64
	PortMulticastRcvPkts  uint64

	SymbolErrors                 uint64
	LinkErrorRecovery            uint64
	LinkDowned                   uint64
	PortRcvErrors                uint64
	PortRcvRemotePhysicalErrors  uint64
	PortRcvSwitchRelayErrors     uint64
	PortXmitDiscards             uint64
	PortXmitConstraintErrors     uint64
	PortRcvConstraintErrors      uint64
	LocalLinkIntegrityErrors     uint64
	ExcessiveBufferOverrunErrors uint64
	VL15Dropped                  uint64
	PortXmitWait                 uint64
	QP1Dropped                   uint64
}

// counters lists them in the order of the wire.
func (p *PortCountersExtended) counters() [22]*uint64 {
	return [22]*uint64{&p.PortXmitData, &p.PortRcvData, &p.PortXmitPkts, &p.PortRcvPkts, &p.PortUnicastXmitPkts, &p.PortUnicastRcvPkts,
		&p.PortMulticastXmitPkts, &p.PortMulticastRcvPkts, &p.SymbolErrors, &p.LinkErrorRecovery, &p.LinkDowned, &p.PortRcvErrors,
		&p.PortRcvRemotePhysicalErrors, &p.PortRcvSwitchRelayErrors, &p.PortXmitDiscards, &p.PortXmitConstraintErrors,
		&p.PortRcvConstraintErrors, &p.LocalLinkIntegrityErrors, &p.ExcessiveBufferOverrunErrors, &p.VL15Dropped, &p.PortXmitWait,
		&p.QP1Dropped}
}

// Put writes the attribute to b[:PortCountersExtendedLen]; b must be that long.
func (p *PortCountersExtended) Put(b []byte) {
	_ = b[PortCountersExtendedLen-1]
	b[0], b[1] = p.Reserved0, p.PortSelect
	be.PutUint16(b[2:], p.CounterSelect)
	be.PutUint32(b[4:], p.CounterSelect2)
	for i, c := range p.counters() {
		be.PutUint64(b[8+8*i:], *c)
	}
}

// Parse reads the attribute from b[:PortCountersExtendedLen]; b must be that long.
func (p *PortCountersExtended) Parse(b []byte) {
	_ = b[PortCountersExtendedLen-1]
	p.Reserved0, p.PortSelect, p.CounterSelect, p.CounterSelect2 = b[0], b[1], be.Uint16(b[2:]), be.Uint32(b[4:])
	for i, c := range p.counters() {
		*c = be.Uint64(b[8+8*i:])
	}
}

// Check returns an *Error around ErrReserved for reserved bits.
func (p *PortCountersExtended) Check() error {
	c := checker{layout: "PortCountersExtended"}
	c.zero("Reserved0", uint64(p.Reserved0))
	return c.err
}
