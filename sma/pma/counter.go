package pma

import "ciddk/mad"

// A Counter is a counter of a port. Its value is the bit of the counter in a Counters set.
type Counter uint8

// Counters, in the order of mad.PortCountersExtended.
const (
	XmitData Counter = iota // units of 4 bytes, as RcvData
	RcvData
	XmitPkts
	RcvPkts
	UnicastXmitPkts
	UnicastRcvPkts
	MulticastXmitPkts
	MulticastRcvPkts
	SymbolErrors
	LinkErrorRecovery
	LinkDowned
	RcvErrors
	RcvRemotePhysErrors
	RcvSwitchRelayErrors
	XmitDiscards
	XmitConstraintErrors
	RcvConstraintErrors
	LocalLinkIntegrity
	ExcessiveOverrun
	VL15Dropped
	XmitWait
	QP1Dropped
	NumCounters
)

// A Set is a set of counters.
type Set uint32

// SetOf returns the set of some counters.
func SetOf(list ...Counter) (s Set) {
	for _, c := range list {
		s |= 1 << c
	}
	return s
}

// Has reports whether the set has a counter.
func (s Set) Has(c Counter) bool { return s>>c&1 != 0 }

// Values are the values of all counters of a port.
type Values [NumCounters]uint64

// extended returns the fields of the attribute, by counter.
func extended(p *mad.PortCountersExtended) [NumCounters]*uint64 {
	return [NumCounters]*uint64{
		XmitData: &p.PortXmitData, RcvData: &p.PortRcvData, XmitPkts: &p.PortXmitPkts, RcvPkts: &p.PortRcvPkts,
		UnicastXmitPkts: &p.PortUnicastXmitPkts, UnicastRcvPkts: &p.PortUnicastRcvPkts,
		MulticastXmitPkts: &p.PortMulticastXmitPkts, MulticastRcvPkts: &p.PortMulticastRcvPkts,
		SymbolErrors: &p.SymbolErrors, LinkErrorRecovery: &p.LinkErrorRecovery, LinkDowned: &p.LinkDowned,
		RcvErrors: &p.PortRcvErrors, RcvRemotePhysErrors: &p.PortRcvRemotePhysicalErrors,
		RcvSwitchRelayErrors: &p.PortRcvSwitchRelayErrors, XmitDiscards: &p.PortXmitDiscards,
		XmitConstraintErrors: &p.PortXmitConstraintErrors, RcvConstraintErrors: &p.PortRcvConstraintErrors,
		LocalLinkIntegrity: &p.LocalLinkIntegrityErrors, ExcessiveOverrun: &p.ExcessiveBufferOverrunErrors,
		VL15Dropped: &p.VL15Dropped, XmitWait: &p.PortXmitWait, QP1Dropped: &p.QP1Dropped,
	}
}

// short is a counter of PortCounters: how to read and to write it, and the bit that selects it in a Set. A counter of
// CounterSelect2 has its bit above bit 15.
type short struct {
	counter Counter
	bit     uint32
	max     uint64
	get     func(p *mad.PortCounters) uint64
	set     func(p *mad.PortCounters, v uint64)
}

const (
	max4, max8, max16, max32 = 1<<4 - 1, 1<<8 - 1, 1<<16 - 1, 1<<32 - 1

	selectXmitWait, selectQP1Dropped = 1 << 16, 1 << 17
)

func field[T uint8 | uint16 | uint32](at func(p *mad.PortCounters) *T) (get func(p *mad.PortCounters) uint64,
	set func(p *mad.PortCounters, v uint64)) {
	return func(p *mad.PortCounters) uint64 { return uint64(*at(p)) },
		func(p *mad.PortCounters, v uint64) { *at(p) = T(v) }
}

func newShort[T uint8 | uint16 | uint32](c Counter, bit uint32, limit uint64, at func(p *mad.PortCounters) *T) short {
	get, set := field(at)
	return short{c, bit, limit, get, set}
}

var shorts = [...]short{
	newShort(SymbolErrors, uint32(mad.SelectSymbolError), max16,
		func(p *mad.PortCounters) *uint16 { return &p.SymbolErrors }),
	newShort(LinkErrorRecovery, uint32(mad.SelectLinkErrorRecovery), max8,
		func(p *mad.PortCounters) *uint8 { return &p.LinkErrorRecovery }),
	newShort(LinkDowned, uint32(mad.SelectLinkDowned), max8,
		func(p *mad.PortCounters) *uint8 { return &p.LinkDowned }),
	newShort(RcvErrors, uint32(mad.SelectRcvErrors), max16,
		func(p *mad.PortCounters) *uint16 { return &p.PortRcvErrors }),
	newShort(RcvRemotePhysErrors, uint32(mad.SelectRcvRemotePhysErrors), max16,
		func(p *mad.PortCounters) *uint16 { return &p.PortRcvRemotePhysicalErrors }),
	newShort(RcvSwitchRelayErrors, uint32(mad.SelectRcvSwitchRelay), max16,
		func(p *mad.PortCounters) *uint16 { return &p.PortRcvSwitchRelayErrors }),
	newShort(XmitDiscards, uint32(mad.SelectXmitDiscards), max16,
		func(p *mad.PortCounters) *uint16 { return &p.PortXmitDiscards }),
	newShort(XmitConstraintErrors, uint32(mad.SelectXmitConstraint), max8,
		func(p *mad.PortCounters) *uint8 { return &p.PortXmitConstraintErrors }),
	newShort(RcvConstraintErrors, uint32(mad.SelectRcvConstraint), max8,
		func(p *mad.PortCounters) *uint8 { return &p.PortRcvConstraintErrors }),
	newShort(LocalLinkIntegrity, uint32(mad.SelectLocalLinkIntegrity), max4,
		func(p *mad.PortCounters) *uint8 { return &p.LocalLinkIntegrityErrors }),
	newShort(ExcessiveOverrun, uint32(mad.SelectExcessiveOverrun), max4,
		func(p *mad.PortCounters) *uint8 { return &p.ExcessiveBufferOverrunErrors }),
	newShort(VL15Dropped, uint32(mad.SelectVL15Dropped), max16,
		func(p *mad.PortCounters) *uint16 { return &p.VL15Dropped }),
	newShort(XmitData, uint32(mad.SelectXmitData), max32,
		func(p *mad.PortCounters) *uint32 { return &p.PortXmitData }),
	newShort(RcvData, uint32(mad.SelectRcvData), max32,
		func(p *mad.PortCounters) *uint32 { return &p.PortRcvData }),
	newShort(XmitPkts, uint32(mad.SelectXmitPkts), max32,
		func(p *mad.PortCounters) *uint32 { return &p.PortXmitPkts }),
	newShort(RcvPkts, uint32(mad.SelectRcvPkts), max32,
		func(p *mad.PortCounters) *uint32 { return &p.PortRcvPkts }),
	newShort(XmitWait, selectXmitWait, max32, func(p *mad.PortCounters) *uint32 { return &p.PortXmitWait }),
	newShort(QP1Dropped, selectQP1Dropped, max16, func(p *mad.PortCounters) *uint16 { return &p.QP1Dropped }),
}
