package mad

// PortInfoRecordLen is the length of a PortInfoRecord in bytes.
const PortInfoRecordLen = 4 + PortInfoLen

// Components of a PortInfoRecord that are useful in queries (15.2.5.3, table 191).
const (
	PortInfoRecordLID     ComponentMask = 1 << 0
	PortInfoRecordPortNum ComponentMask = 1 << 1
	PortInfoRecordOptions ComponentMask = 1 << 2
	PortInfoBaseLID       ComponentMask = 1 << 5
	PortInfoMasterSMLID   ComponentMask = 1 << 6
	PortInfoCapability    ComponentMask = 1 << 7
	PortInfoState         ComponentMask = 1 << 15
	PortInfoLMC           ComponentMask = 1 << 20
)

// PortInfoRecord is the PortInfo of a port, with the address of the port (15.2.5.3).
type PortInfoRecord struct {
	EndportLID uint16   // bytes 0-1: LID of the end port
	PortNum    uint8    // byte 2
	Options    uint8    // byte 3: reserved before release 1.3
	PortInfo   PortInfo // bytes 4-67
}

// Put writes the record to b[:PortInfoRecordLen]. It panics if b is shorter.
func (p *PortInfoRecord) Put(b []byte) {
	_ = b[PortInfoRecordLen-1]
	be.PutUint16(b, p.EndportLID)
	b[2], b[3] = p.PortNum, p.Options
	p.PortInfo.Put(b[4:])
}

// Parse reads the record from b[:PortInfoRecordLen]. It panics if b is shorter.
func (p *PortInfoRecord) Parse(b []byte) {
	_ = b[PortInfoRecordLen-1]
	p.EndportLID, p.PortNum, p.Options = be.Uint16(b), b[2], b[3]
	p.PortInfo.Parse(b[4:])
}
