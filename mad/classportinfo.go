package mad

// ClassPortInfoLen is the length of a ClassPortInfo in bytes.
const ClassPortInfoLen = 72

// Bits of ClassPortInfo.CapabilityMask that all classes share (13.4.8.1).
const (
	ClassCapTrap   uint16 = 1 << 0 // the agent sends traps
	ClassCapNotice uint16 = 1 << 1 // the agent answers Get and Set of Notice
)

// Bits of ClassPortInfo.CapabilityMask of performance management (16.1.3.1).
const (
	PerfCapAllPortSelect        uint16 = 1 << 8
	PerfCapExtendedWidth        uint16 = 1 << 9  // PortCountersExtended has all its counters
	PerfCapExtendedWidthNoIETF  uint16 = 1 << 10 // PortCountersExtended lacks the unicast and multicast counters
	PerfCapSamplesOnlySupported uint16 = 1 << 11
	PerfCapXmitWait             uint16 = 1 << 12 // PortCounters.PortXmitWait counts
)

// ClassAddress is an address in ClassPortInfo, to which datagrams of a management class are to be sent (13.4.8.1).
type ClassAddress struct {
	GID          [16]byte // bytes 0-15
	TrafficClass uint8    // byte 16
	SL           uint8    // byte 17, bits 7-4
	FlowLabel    uint32   // byte 17, bit 3, to byte 19, bit 0
	LID          uint16   // bytes 20-21
	PKey         uint16   // bytes 22-23
	HopLimit     uint8    // byte 24: reserved in the redirect address
	QPN          uint32   // bytes 25-27
	QKey         uint32   // bytes 28-31
}

const classAddressLen = 32

func (a *ClassAddress) put(b []byte) {
	copy(b[:16], a.GID[:])
	be.PutUint32(b[16:], uint32(a.TrafficClass)<<24|uint32(a.SL&15)<<20|a.FlowLabel&0xfffff)
	be.PutUint16(b[20:], a.LID)
	be.PutUint16(b[22:], a.PKey)
	b[24] = a.HopLimit
	put24(b[25:], a.QPN)
	be.PutUint32(b[28:], a.QKey)
}

func (a *ClassAddress) parse(b []byte) {
	w := be.Uint32(b[16:])
	*a = ClassAddress{GID: [16]byte(b[:16]), TrafficClass: uint8(w >> 24), SL: uint8(w >> 20 & 15),
		FlowLabel: w & 0xfffff,
		LID:       be.Uint16(b[20:]), PKey: be.Uint16(b[22:]), HopLimit: b[24], QPN: get24(b[25:]),
		QKey: be.Uint32(b[28:])}
}

// ClassPortInfo describes the agent of a management class of QP1 (13.4.8.1). Every class has this attribute.
type ClassPortInfo struct {
	BaseVersion     uint8        // byte 0
	ClassVersion    uint8        // byte 1
	CapabilityMask  uint16       // bytes 2-3
	CapabilityMask2 uint32       // byte 4, bit 7, to byte 7, bit 5
	ResponseTime    TimeExp      // byte 7, bits 4-0: longest time until a response
	Redirect        ClassAddress // bytes 8-39
	Trap            ClassAddress // bytes 40-71
}

// Put writes the attribute to b[:ClassPortInfoLen]. It panics if b is shorter.
func (p *ClassPortInfo) Put(b []byte) {
	_ = b[ClassPortInfoLen-1]
	b[0], b[1] = p.BaseVersion, p.ClassVersion
	be.PutUint16(b[2:], p.CapabilityMask)
	be.PutUint32(b[4:], p.CapabilityMask2<<5|uint32(p.ResponseTime&31))
	p.Redirect.put(b[8:])
	p.Trap.put(b[8+classAddressLen:])
}

// Parse reads the attribute from b[:ClassPortInfoLen]. It panics if b is shorter.
func (p *ClassPortInfo) Parse(b []byte) {
	_ = b[ClassPortInfoLen-1]
	w := be.Uint32(b[4:])
	p.BaseVersion, p.ClassVersion, p.CapabilityMask = b[0], b[1], be.Uint16(b[2:])
	p.CapabilityMask2, p.ResponseTime = w>>5, TimeExp(w&31)
	p.Redirect.parse(b[8:])
	p.Trap.parse(b[8+classAddressLen:])
}
