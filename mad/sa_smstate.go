package mad

// Lengths of records that carry an attribute of subnet management, in bytes.
const (
	SMInfoRecordLen     = 4 + SMInfoLen
	SwitchInfoRecordLen = 4 + SwitchInfoLen
)

// Component of an SMInfoRecord and of a SwitchInfoRecord that is useful in queries: the LID.
const (
	SMInfoRecordLID     ComponentMask = 1 << 0
	SwitchInfoRecordLID ComponentMask = 1 << 0
)

// SMInfoRecord is the SMInfo of a subnet manager (15.2.5.10).
type SMInfoRecord struct {
	LID       uint16 // bytes 0-1
	Reserved2 uint16 // bytes 2-3
	SMInfo    SMInfo // bytes 4-24
}

// Put writes the record to b[:SMInfoRecordLen]. It panics if b is shorter.
func (s *SMInfoRecord) Put(b []byte) {
	_ = b[SMInfoRecordLen-1]
	be.PutUint16(b, s.LID)
	be.PutUint16(b[2:], s.Reserved2)
	s.SMInfo.Put(b[4:])
}

// Parse reads the record from b[:SMInfoRecordLen]. It panics if b is shorter.
func (s *SMInfoRecord) Parse(b []byte) {
	_ = b[SMInfoRecordLen-1]
	s.LID, s.Reserved2 = be.Uint16(b), be.Uint16(b[2:])
	s.SMInfo.Parse(b[4:])
}

// SwitchInfoRecord is the SwitchInfo of a switch (15.2.5.5).
type SwitchInfoRecord struct {
	LID        uint16     // bytes 0-1
	Reserved2  uint16     // bytes 2-3
	SwitchInfo SwitchInfo // bytes 4-23
}

// Put writes the record to b[:SwitchInfoRecordLen]. It panics if b is shorter.
func (s *SwitchInfoRecord) Put(b []byte) {
	_ = b[SwitchInfoRecordLen-1]
	be.PutUint16(b, s.LID)
	be.PutUint16(b[2:], s.Reserved2)
	s.SwitchInfo.Put(b[4:])
}

// Parse reads the record from b[:SwitchInfoRecordLen]. It panics if b is shorter.
func (s *SwitchInfoRecord) Parse(b []byte) {
	_ = b[SwitchInfoRecordLen-1]
	s.LID, s.Reserved2 = be.Uint16(b), be.Uint16(b[2:])
	s.SwitchInfo.Parse(b[4:])
}
