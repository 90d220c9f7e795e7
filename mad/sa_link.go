package mad

// LinkRecordLen is the length of a LinkRecord in bytes.
const LinkRecordLen = 6

// Components of a LinkRecord (15.2.5.13).
const (
	LinkFromLID  ComponentMask = 1 << 0
	LinkFromPort ComponentMask = 1 << 1
	LinkToPort   ComponentMask = 1 << 2
	LinkToLID    ComponentMask = 1 << 3
)

// LinkRecord is a link in one direction (15.2.5.13). The LID of a switch is that of its port 0.
type LinkRecord struct {
	FromLID  uint16 // bytes 0-1
	FromPort uint8  // byte 2
	ToPort   uint8  // byte 3
	ToLID    uint16 // bytes 4-5
}

// Put writes the record to b[:LinkRecordLen]. It panics if b is shorter.
func (l *LinkRecord) Put(b []byte) {
	_ = b[LinkRecordLen-1]
	be.PutUint16(b, l.FromLID)
	b[2], b[3] = l.FromPort, l.ToPort
	be.PutUint16(b[4:], l.ToLID)
}

// Parse reads the record from b[:LinkRecordLen]. It panics if b is shorter.
func (l *LinkRecord) Parse(b []byte) {
	_ = b[LinkRecordLen-1]
	*l = LinkRecord{FromLID: be.Uint16(b), FromPort: b[2], ToPort: b[3], ToLID: be.Uint16(b[4:])}
}
