package mad

// Lengths of a subnet administration datagram in bytes: all headers, and the attribute or RMPP segment behind them.
const (
	SAHeaderLen = 56
	SADataLen   = Size - SAHeaderLen
)

// Attributes of subnet administration (15.2.5, table 188). Notice (AttrNotice) has the ID that it has in subnet management.
const (
	AttrClassPortInfo    uint16 = 0x0001 // of every class of QP1
	AttrInformInfo       uint16 = 0x0003
	AttrNodeRecord       uint16 = 0x0011
	AttrPortInfoRecord   uint16 = 0x0012
	AttrSMInfoRecord     uint16 = 0x0018
	AttrLinkRecord       uint16 = 0x0020
	AttrServiceRecord    uint16 = 0x0031
	AttrPKeyTableRecord  uint16 = 0x0033
	AttrPathRecord       uint16 = 0x0035
	AttrMCMemberRecord   uint16 = 0x0038
	AttrMultiPathRecord  uint16 = 0x003a
	AttrInformInfoRecord uint16 = 0x00f3
)

// ComponentMask tells which components of the attribute a query means; the others are wildcards (15.4.4). Each attribute counts its own
// components from bit 0, reserved ones too.
type ComponentMask uint64

// Selector says how a value of a query is meant, two bits (15.2.5.16).
type Selector uint8

// Selectors.
const (
	Greater Selector = 0
	Less    Selector = 1
	Exactly Selector = 2
	Best    Selector = 3 // the largest MTU or rate, the smallest life time
)

// SA is a subnet administration datagram (15.2.1).
//
//	byte 0:24  header
//	byte 24:12 RMPP header
//	byte 36:8  SM_Key
//	byte 44:2  attribute offset
//	byte 46:2  reserved
//	byte 48:8  component mask
//	byte 56    attribute
type SA struct {
	Header
	RMPP            RMPP
	SMKey           uint64
	AttributeOffset uint16 // from one record of a table to the next, in units of 8 bytes
	Reserved46      uint16
	ComponentMask   ComponentMask
	Data            [SADataLen]byte
}

// Put writes the datagram to b[:Size]; b must be that long.
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

// Parse reads the datagram from b[:Size]; b must be that long.
func (s *SA) Parse(b []byte) {
	_ = b[Size-1]
	s.Header.Parse(b)
	s.RMPP.Parse(b[HeaderLen:])
	s.SMKey, s.AttributeOffset, s.Reserved46 = be.Uint64(b[36:]), be.Uint16(b[44:]), be.Uint16(b[46:])
	s.ComponentMask, s.Data = ComponentMask(be.Uint64(b[48:])), [SADataLen]byte(b[SAHeaderLen:Size])
}

// Check returns an *Error that names the first field that no sender may send so: ErrVersion, ErrClass, ErrRange, ErrReserved.
func (s *SA) Check() error {
	if err := s.Header.Check(); err != nil {
		return err
	}
	if err := s.CheckSA(); err != nil {
		return err
	}
	c := checker{layout: "SA"}
	s.RMPP.check(&c, "RMPP.")
	c.zero("Reserved46", uint64(s.Reserved46))
	return c.err
}

// CheckSA judges the header of a received datagram.
//
// Errors: ErrClass; ErrVersion for another class version than 2, which an agent answers with StatusBadVersion.
func (h *Header) CheckSA() error {
	switch {
	case h.Class != ClassSubnetAdmin:
		return errorf(ErrClass, "Header", "Class", "%v, want %v", h.Class, ClassSubnetAdmin)
	case h.ClassVersion != ClassVersionSubnetAdmin:
		return errorf(ErrVersion, "Header", "ClassVersion", "%d, want %d", h.ClassVersion, ClassVersionSubnetAdmin)
	}
	return nil
}

// ParseSA takes apart a datagram that came from QP1.
//
// Errors: those of ParseHeader and CheckSA, with s.Header filled in all the same, but for ErrLength.
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

// Records cuts the data of a GetTableResp, put together from its RMPP segments, into records of size bytes each; offset is the datagram's
// AttributeOffset. A record that is longer than size, from a later edition, is cut to it. The results are parts of data.
//
// Errors: ErrLength for records shorter than size, and for a rest too short for a record that is more than the padding of 8 bytes.
func Records(data []byte, offset uint16, size int) ([][]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	step := 8 * int(offset)
	if step < size {
		return nil, errorf(ErrLength, "SA", "AttributeOffset", "%d bytes from record to record, each has %d", step, size)
	}
	records := make([][]byte, 0, (len(data)+step-1)/step)
	for len(data) >= size {
		records = append(records, data[:size:size])
		data = data[min(step, len(data)):]
	}
	if len(data) >= 8 {
		return nil, errorf(ErrLength, "SA", "Data", "%d bytes behind the last record, a record has %d", len(data), size)
	}
	return records, nil
}

// AttributeOffset gives SA.AttributeOffset for records of size bytes: they begin at multiples of 8.
func AttributeOffset(size int) uint16 { return uint16((size + 7) / 8) }
