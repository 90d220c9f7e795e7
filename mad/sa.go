package mad

// Lengths in a subnet administration datagram in bytes: all headers, and the attribute or RMPP segment that follows
// them.
const (
	SAHeaderLen = 56
	SADataLen   = Size - SAHeaderLen
)

// Attributes of subnet administration (15.2.5, table 188). Notice (AttrNotice) has the ID that it has in subnet
// management.
const (
	AttrClassPortInfo    uint16 = 0x0001 // of every class of QP1
	AttrInformInfo       uint16 = 0x0003
	AttrNodeRecord       uint16 = 0x0011
	AttrPortInfoRecord   uint16 = 0x0012
	AttrSLtoVLRecord     uint16 = 0x0013
	AttrSwitchInfoRecord uint16 = 0x0014
	AttrSMInfoRecord     uint16 = 0x0018
	AttrLinkRecord       uint16 = 0x0020
	AttrServiceRecord    uint16 = 0x0031
	AttrPKeyTableRecord  uint16 = 0x0033
	AttrPathRecord       uint16 = 0x0035
	AttrVLArbRecord      uint16 = 0x0036
	AttrMCMemberRecord   uint16 = 0x0038
	AttrMultiPathRecord  uint16 = 0x003a
	AttrInformInfoRecord uint16 = 0x00f3
)

// ComponentMask selects the components of an attribute that a query specifies; all others are wildcards (15.4.4). Each
// attribute numbers its components from bit 0, including reserved ones.
type ComponentMask uint64

// Selector is the comparison of a component in a query (15.2.5.16). It has two bits.
type Selector uint8

// Selectors.
const (
	Greater Selector = 0
	Less    Selector = 1
	Exactly Selector = 2
	Best    Selector = 3 // the largest MTU or rate, or the smallest lifetime
)

// SA is a subnet administration datagram (15.2.1).
type SA struct {
	Header                          // bytes 0-23
	RMPP            RMPP            // bytes 24-35
	SMKey           uint64          // bytes 36-43: SM_Key
	AttributeOffset uint16          // bytes 44-45: distance between records of a table, in units of 8 bytes
	Reserved46      uint16          // bytes 46-47
	ComponentMask   ComponentMask   // bytes 48-55
	Data            [SADataLen]byte // bytes 56-255: the attribute, or an RMPP segment
}

// Put writes the datagram to b[:Size]. It panics if b is shorter.
func (s *SA) Put(b []byte) {
	_ = b[Size-1]
	s.Header.Put(b)
	s.RMPP.Put(b[HeaderLen:])
	be.PutUint64(b[36:], s.SMKey)
	be.PutUint16(b[44:], s.AttributeOffset)
	be.PutUint16(b[46:], s.Reserved46)
	be.PutUint64(b[48:], uint64(s.ComponentMask))
	copy(b[SAHeaderLen:Size], s.Data[:])
}

// Parse reads the datagram from b[:Size]. It panics if b is shorter.
func (s *SA) Parse(b []byte) {
	_ = b[Size-1]
	s.Header.Parse(b)
	s.RMPP.Parse(b[HeaderLen:])
	s.SMKey, s.AttributeOffset, s.Reserved46 = be.Uint64(b[36:]), be.Uint16(b[44:]), be.Uint16(b[46:])
	s.ComponentMask, s.Data = ComponentMask(be.Uint64(b[48:])), [SADataLen]byte(b[SAHeaderLen:Size])
}

// CheckSA validates the header of a received datagram.
//
// Errors: ErrClass; ErrVersion for a class version other than 2, which an agent answers with StatusBadVersion.
func (h *Header) CheckSA() error {
	switch {
	case h.Class != ClassSubnetAdmin:
		return errorf(ErrClass, "Header", "Class", "%v, want %v", h.Class, ClassSubnetAdmin)
	case h.ClassVersion != ClassVersionSubnetAdmin:
		return errorf(ErrVersion, "Header", "ClassVersion", "%d, want %d", h.ClassVersion, ClassVersionSubnetAdmin)
	}
	return nil
}

// ParseSA parses a datagram received on QP1.
//
// Errors: those of ParseHeader and CheckSA. ParseSA fills in s.Header after every error except ErrLength.
func ParseSA(b []byte, s *SA) error {
	*s = SA{}
	h, err := ParseHeader(b)
	if err == nil {
		err = h.CheckSA()
	}
	if err != nil {
		s.Header = h
		return err
	}
	s.Parse(b)
	return nil
}

// Records splits the reassembled data of a GetTableResp into records of size bytes. offset is the AttributeOffset of
// the datagram. Records that are longer than size, as in later releases, are truncated to size. The results are
// subslices of data.
//
// Errors: ErrLength if offset is less than size, or if 8 bytes or more remain after the last record.
func Records(data []byte, offset uint16, size int) ([][]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	step := 8 * int(offset)
	if step < size {
		return nil, errorf(ErrLength, "SA", "AttributeOffset", "%d bytes from record to record, but a record has %d",
			step,
			size)
	}
	records := make([][]byte, 0, (len(data)+step-1)/step)
	for len(data) >= size {
		records = append(records, data[:size:size])
		data = data[min(step, len(data)):]
	}
	if len(data) >= 8 {
		return nil, errorf(ErrLength, "SA", "Data", "%d bytes after the last record, but a record has %d",
			len(data), size)
	}
	return records, nil
}

// AttributeOffset returns the SA.AttributeOffset for records of size bytes. Records begin at multiples of 8 bytes.
func AttributeOffset(size int) uint16 { return uint16((size + 7) / 8) }
