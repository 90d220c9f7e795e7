package mad

// InformInfoLen is the length of an InformInfo in bytes.
const InformInfoLen = 36

// Values of InformInfo that match everything.
const (
	InformAllLIDs      uint16 = 0xffff   // LIDBegin
	InformAllTypes     uint16 = 0xffff   // Type
	InformAllTraps     uint16 = 0xffff   // Trap
	InformAllProducers uint32 = 0xffffff // Producer
)

// InformInfo subscribes to notices of a class manager, or ends a subscription (13.4.8.3). Set of this attribute carries
// it; the class manager then sends matching notices with Report.
type InformInfo struct {
	GID          [16]byte // bytes 0-15: the source of the notices, or zero
	LIDBegin     uint16   // bytes 16-17: first LID of the sources, or InformAllLIDs; ignored if GID is not zero
	LIDEnd       uint16   // bytes 18-19: last LID
	Reserved20   uint16   // bytes 20-21
	Generic      uint8    // byte 22: 1 for generic notices, 0 for those of a vendor
	Subscribe    uint8    // byte 23: 1 to subscribe, 0 to end a subscription
	Type         uint16   // bytes 24-25: Notice…, or InformAllTypes
	Trap         uint16   // bytes 26-27: Trap…, device ID, or InformAllTraps
	QPN          uint32   // bytes 28-30: when a subscription ends, the QP that got the notices
	Reserved31   uint8    // byte 31, bits 7-5
	ResponseTime TimeExp  // byte 31, bits 4-0
	Reserved32   uint8    // byte 32
	Producer     uint32   // bytes 33-35: Producer…, vendor ID, or InformAllProducers
}

// Put writes the attribute to b[:InformInfoLen]. It panics if b is shorter.
func (i *InformInfo) Put(b []byte) {
	_ = b[InformInfoLen-1]
	copy(b[:16], i.GID[:])
	be.PutUint16(b[16:], i.LIDBegin)
	be.PutUint16(b[18:], i.LIDEnd)
	be.PutUint16(b[20:], i.Reserved20)
	b[22], b[23] = i.Generic, i.Subscribe
	be.PutUint16(b[24:], i.Type)
	be.PutUint16(b[26:], i.Trap)
	put24(b[28:], i.QPN)
	b[31], b[32] = i.Reserved31<<5|uint8(i.ResponseTime)&31, i.Reserved32
	put24(b[33:], i.Producer)
}

// Parse reads the attribute from b[:InformInfoLen]. It panics if b is shorter.
func (i *InformInfo) Parse(b []byte) {
	_ = b[InformInfoLen-1]
	*i = InformInfo{GID: [16]byte(b[:16]), LIDBegin: be.Uint16(b[16:]), LIDEnd: be.Uint16(b[18:]),
		Reserved20: be.Uint16(b[20:]), Generic: b[22], Subscribe: b[23], Type: be.Uint16(b[24:]),
		Trap: be.Uint16(b[26:]), QPN: get24(b[28:]), Reserved31: b[31] >> 5, ResponseTime: TimeExp(b[31] & 31),
		Reserved32: b[32], Producer: get24(b[33:])}
}
