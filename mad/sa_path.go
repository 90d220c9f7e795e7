package mad

// PathRecordLen is the length of a PathRecord in bytes.
const PathRecordLen = 64

// Components of a PathRecord (15.2.5.16, table 209). PathServiceID is two components: the upper byte of the ID, and the
// rest.
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

// PathRecord is a path between two ports (15.2.5.16).
type PathRecord struct {
	ServiceID        ServiceID // bytes 0-7
	DGID             [16]byte  // bytes 8-23
	SGID             [16]byte  // bytes 24-39
	DLID             uint16    // bytes 40-41
	SLID             uint16    // bytes 42-43
	RawTraffic       bool      // byte 44, bit 7
	ReservedRaw      uint8     // byte 44, bits 6-4
	FlowLabel        uint32    // byte 44, bit 3, to byte 46, bit 0
	HopLimit         uint8     // byte 47
	TrafficClass     uint8     // byte 48
	Reversible       bool      // byte 49, bit 7
	NumbPath         uint8     // byte 49, bits 6-0: in a query, the largest number of paths to return
	PKey             uint16    // bytes 50-51
	QoSClass         uint16    // byte 52, bit 7, to byte 53, bit 4
	SL               uint8     // byte 53, bits 3-0
	MTUSelector      Selector  // byte 54, bits 7-6
	MTU              MTU       // byte 54, bits 5-0
	RateSelector     Selector  // byte 55, bits 7-6
	Rate             Rate      // byte 55, bits 5-0
	LifeTimeSelector Selector  // byte 56, bits 7-6
	LifeTime         TimeExp   // byte 56, bits 5-0: packet lifetime through the subnet, one way
	Preference       uint8     // byte 57: 0 is the best path
	Reserved58       [6]byte   // bytes 58-63
}

// Put writes the record to b[:PathRecordLen]. It panics if b is shorter.
func (p *PathRecord) Put(b []byte) {
	_ = b[PathRecordLen-1]
	be.PutUint64(b, uint64(p.ServiceID))
	copy(b[8:24], p.DGID[:])
	copy(b[24:40], p.SGID[:])
	be.PutUint16(b[40:], p.DLID)
	be.PutUint16(b[42:], p.SLID)
	w := uint32(bit(p.RawTraffic))<<31 | uint32(p.ReservedRaw&7)<<28
	be.PutUint32(b[44:], w|p.FlowLabel&0xfffff<<8|uint32(p.HopLimit))
	b[48], b[49] = p.TrafficClass, bit(p.Reversible)<<7|p.NumbPath&0x7f
	be.PutUint16(b[50:], p.PKey)
	be.PutUint16(b[52:], p.QoSClass<<4|uint16(p.SL&15))
	b[54] = uint8(p.MTUSelector)<<6 | uint8(p.MTU)&0x3f
	b[55] = uint8(p.RateSelector)<<6 | uint8(p.Rate)&0x3f
	b[56] = uint8(p.LifeTimeSelector)<<6 | uint8(p.LifeTime)&0x3f
	b[57] = p.Preference
	copy(b[58:PathRecordLen], p.Reserved58[:])
}

// Parse reads the record from b[:PathRecordLen]. It panics if b is shorter.
func (p *PathRecord) Parse(b []byte) {
	_ = b[PathRecordLen-1]
	w, q := be.Uint32(b[44:]), be.Uint16(b[52:])
	*p = PathRecord{
		ServiceID: ServiceID(be.Uint64(b)), DGID: [16]byte(b[8:24]), SGID: [16]byte(b[24:40]), DLID: be.Uint16(b[40:]),
		SLID: be.Uint16(b[42:]), RawTraffic: w>>31 != 0, ReservedRaw: uint8(w >> 28 & 7), FlowLabel: w >> 8 & 0xfffff,
		HopLimit: uint8(w), TrafficClass: b[48], Reversible: b[49]&0x80 != 0, NumbPath: b[49] & 0x7f,
		PKey:     be.Uint16(b[50:]),
		QoSClass: q >> 4, SL: uint8(q & 15), MTUSelector: Selector(b[54] >> 6), MTU: MTU(b[54] & 0x3f),
		RateSelector: Selector(b[55] >> 6), Rate: Rate(b[55] & 0x3f), LifeTimeSelector: Selector(b[56] >> 6),
		LifeTime: TimeExp(b[56] & 0x3f), Preference: b[57], Reserved58: [6]byte(b[58:PathRecordLen]),
	}
}
