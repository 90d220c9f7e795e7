package mad

// ClassPortInfoLen is the length of a ClassPortInfo in bytes.
const ClassPortInfoLen = 72

// Bits of ClassPortInfo.CapabilityMask that all classes share (13.4.8.1).
const (
	ClassCapTrap   uint16 = 1 << 0 // sends traps
	ClassCapNotice uint16 = 1 << 1 // Get and Set of Notice
)

// Bits of ClassPortInfo.CapabilityMask of performance management (16.1.3.1).
const (
	PerfCapAllPortSelect        uint16 = 1 << 8
	PerfCapExtendedWidth        uint16 = 1 << 9  // PortCountersExtended with all its counters
	PerfCapExtendedWidthNoIETF  uint16 = 1 << 10 // PortCountersExtended without the unicast and multicast counters
	PerfCapSamplesOnlySupported uint16 = 1 << 11
	PerfCapXmitWait             uint16 = 1 << 12 // PortCounters.PortXmitWait counts
)

// ClassAddress is where a management class wants its datagrams sent, in ClassPortInfo. Bits are listed from the most significant.
//
//	byte 0:16  GID
//	byte 16:4  traffic class 8, SL 4, flow label 20
//	byte 20:2  LID
//	byte 22:2  P_Key
//	byte 24    hop limit; of the redirect address reserved
//	byte 25:3  QPN
//	byte 28:4  Q_Key
type ClassAddress struct {
	GID          [16]byte
	TrafficClass uint8
	SL           uint8  // four bits
	FlowLabel    uint32 // 20 bits
	LID          uint16
	PKey         uint16
	HopLimit     uint8
	QPN          uint32 // 24 bits
	QKey         uint32
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
	*a = ClassAddress{GID: [16]byte(b[:16]), TrafficClass: uint8(w >> 24), SL: uint8(w >> 20 & 15), FlowLabel: w & 0xfffff,
		LID: be.Uint16(b[20:]), PKey: be.Uint16(b[22:]), HopLimit: b[24], QPN: get24(b[25:]), QKey: be.Uint32(b[28:])}
}

func (a *ClassAddress) check(c *checker, in string) {
	c.fits(in+"SL", uint64(a.SL), 4)
	c.fits(in+"FlowLabel", uint64(a.FlowLabel), 20)
	c.fits(in+"QPN", uint64(a.QPN), 24)
}

// ClassPortInfo is what every class of QP1 tells of itself (13.4.8.1). Bits are listed from the most significant.
//
//	byte 0      base version
//	byte 1      class version
//	byte 2:2    capability mask
//	byte 4:4    capability mask 2 27, response time 5
//	byte 8:32   redirect address
//	byte 40:32  trap address
type ClassPortInfo struct {
	BaseVersion     uint8
	ClassVersion    uint8
	CapabilityMask  uint16
	CapabilityMask2 uint32  // 27 bits
	ResponseTime    TimeExp // five bits: how long an answer takes at most
	Redirect        ClassAddress
	Trap            ClassAddress
}

// Put writes the attribute to b[:ClassPortInfoLen]; b must be that long.
func (p *ClassPortInfo) Put(b []byte) {
	_ = b[ClassPortInfoLen-1]
	b[0], b[1] = p.BaseVersion, p.ClassVersion
	be.PutUint16(b[2:], p.CapabilityMask)
	be.PutUint32(b[4:], p.CapabilityMask2<<5|uint32(p.ResponseTime&31))
	p.Redirect.put(b[8:])
	p.Trap.put(b[8+classAddressLen:])
}

// Parse reads the attribute from b[:ClassPortInfoLen]; b must be that long.
func (p *ClassPortInfo) Parse(b []byte) {
	_ = b[ClassPortInfoLen-1]
	w := be.Uint32(b[4:])
	p.BaseVersion, p.ClassVersion, p.CapabilityMask = b[0], b[1], be.Uint16(b[2:])
	p.CapabilityMask2, p.ResponseTime = w>>5, TimeExp(w&31)
	p.Redirect.parse(b[8:])
	p.Trap.parse(b[8+classAddressLen:])
}

// Check returns an *Error that names the first field that no sender may send so: ErrRange, ErrReserved.
func (p *ClassPortInfo) Check() error {
	c := checker{layout: "ClassPortInfo"}
	c.fits("CapabilityMask2", uint64(p.CapabilityMask2), 27)
	c.fits("ResponseTime", uint64(p.ResponseTime), 5)
	p.Redirect.check(&c, "Redirect.")
	c.zero("Redirect.HopLimit", uint64(p.Redirect.HopLimit))
	p.Trap.check(&c, "Trap.")
	return c.err
}
