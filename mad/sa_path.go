package mad

// PathRecordLen is the length of a PathRecord in bytes.
const PathRecordLen = 64

// Components of a PathRecord (15.2.5.16, table 209). PathServiceID stands for two: the ID's upper byte and the rest.
const (
	PathServiceID        ComponentMask = 3
	PathDGID             ComponentMask = 1 << 2
	PathSGID             ComponentMask = 1 << 3
	PathDLID             ComponentMask = 1 << 4
	PathSLID             ComponentMask = 1 << 5
	PathRawTraffic       ComponentMask = 1 << 6
	PathFlowLabel        ComponentMask = 1 << 8
	PathHopLimit         ComponentMask = 1 << 9
	PathTrafficClass     ComponentMask = 1 << 10
	PathReversible       ComponentMask = 1 << 11
	PathNumbPath         ComponentMask = 1 << 12
	PathPKey             ComponentMask = 1 << 13
	PathQoSClass         ComponentMask = 1 << 14
	PathSL               ComponentMask = 1 << 15
	PathMTUSelector      ComponentMask = 1 << 16
	PathMTU              ComponentMask = 1 << 17
	PathRateSelector     ComponentMask = 1 << 18
	PathRate             ComponentMask = 1 << 19
	PathLifeTimeSelector ComponentMask = 1 << 20
	PathLifeTime         ComponentMask = 1 << 21
	PathPreference       ComponentMask = 1 << 22
)

// PathRecord is a path between two ports (15.2.5.16). Bits are listed from the most significant.
//
//	byte 0:8   service ID            byte 49    reversible 1, number of paths 7
//	byte 8:16  destination GID       byte 50:2  P_Key
//	byte 24:16 source GID            byte 52:2  QoS class 12, SL 4
//	byte 40:2  destination LID       byte 54    MTU selector 2, MTU 6
//	byte 42:2  source LID            byte 55    rate selector 2, rate 6
//	byte 44:4  raw traffic 1,        byte 56    life time selector 2, life time 6
//	           reserved 3,           byte 57    preference
//	           flow label 20,        byte 58:6  reserved
//	           hop limit 8
//	byte 48    traffic class
type PathRecord struct {
	ServiceID        ServiceID
	DGID             [16]byte
	SGID             [16]byte
	DLID             uint16
	SLID             uint16
	RawTraffic       bool
	ReservedRaw      uint8  // three bits
	FlowLabel        uint32 // 20 bits
	HopLimit         uint8
	TrafficClass     uint8
	Reversible       bool
	NumbPath         uint8 // seven bits: of a query the most paths wanted
	PKey             uint16
	QoSClass         uint16 // twelve bits
	SL               uint8  // four bits
	MTUSelector      Selector
	MTU              MTU // six bits
	RateSelector     Selector
	Rate             Rate // six bits
	LifeTimeSelector Selector
	LifeTime         TimeExp // six bits: one way through the subnet
	Preference       uint8   // 0 the best
	Reserved58       [6]byte
}

// Put writes the record to b[:PathRecordLen]; b must be that long.
func (p *PathRecord) Put(b []byte) {
	_ = b[PathRecordLen-1]
	be.PutUint64(b, uint64(p.ServiceID))
	copy(b[8:24], p.DGID[:])
	copy(b[24:40], p.SGID[:])
	be.PutUint16(b[40:], p.DLID)
	be.PutUint16(b[42:], p.SLID)
	be.PutUint32(b[44:], uint32(bit(p.RawTraffic))<<31|uint32(p.ReservedRaw&7)<<28|p.FlowLabel&0xfffff<<8|uint32(p.HopLimit))
	b[48], b[49] = p.TrafficClass, bit(p.Reversible)<<7|p.NumbPath&0x7f
	be.PutUint16(b[50:], p.PKey)
	be.PutUint16(b[52:], p.QoSClass<<4|uint16(p.SL&15))
	b[54] = uint8(p.MTUSelector)<<6 | uint8(p.MTU)&0x3f
	b[55] = uint8(p.RateSelector)<<6 | uint8(p.Rate)&0x3f
	b[56] = uint8(p.LifeTimeSelector)<<6 | uint8(p.LifeTime)&0x3f
	b[57] = p.Preference
	copy(b[58:PathRecordLen], p.Reserved58[:])
}

// Parse reads the record from b[:PathRecordLen]; b must be that long.
func (p *PathRecord) Parse(b []byte) {
	_ = b[PathRecordLen-1]
	w, q := be.Uint32(b[44:]), be.Uint16(b[52:])
	*p = PathRecord{
		ServiceID: ServiceID(be.Uint64(b)), DGID: [16]byte(b[8:24]), SGID: [16]byte(b[24:40]), DLID: be.Uint16(b[40:]),
		SLID: be.Uint16(b[42:]), RawTraffic: w>>31 != 0, ReservedRaw: uint8(w >> 28 & 7), FlowLabel: w >> 8 & 0xfffff,
		HopLimit: uint8(w), TrafficClass: b[48], Reversible: b[49]&0x80 != 0, NumbPath: b[49] & 0x7f, PKey: be.Uint16(b[50:]),
		QoSClass: q >> 4, SL: uint8(q & 15), MTUSelector: Selector(b[54] >> 6), MTU: MTU(b[54] & 0x3f),
		RateSelector: Selector(b[55] >> 6), Rate: Rate(b[55] & 0x3f), LifeTimeSelector: Selector(b[56] >> 6),
		LifeTime: TimeExp(b[56] & 0x3f), Preference: b[57], Reserved58: [6]byte(b[58:PathRecordLen]),
	}
}

// Check returns an *Error that names the first field that no sender may send so: ErrRange, ErrReserved.
func (p *PathRecord) Check() error {
	c := checker{layout: "PathRecord"}
	c.zero("ReservedRaw", uint64(p.ReservedRaw))
	c.fits("FlowLabel", uint64(p.FlowLabel), 20)
	c.fits("NumbPath", uint64(p.NumbPath), 7)
	c.fits("QoSClass", uint64(p.QoSClass), 12)
	c.fits("SL", uint64(p.SL), 4)
	c.fits("MTUSelector", uint64(p.MTUSelector), 2)
	c.fits("MTU", uint64(p.MTU), 6)
	c.fits("RateSelector", uint64(p.RateSelector), 2)
	c.fits("Rate", uint64(p.Rate), 6)
	c.fits("LifeTimeSelector", uint64(p.LifeTimeSelector), 2)
	c.fits("LifeTime", uint64(p.LifeTime), 6)
	c.zeros("Reserved58", p.Reserved58[:])
	return c.err
}
