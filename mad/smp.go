package mad

import "encoding/binary"

// SMPDataLen is the length of an SMP's attribute in bytes, MaxHops the number of path entries (entry 0 is not used).
const (
	SMPDataLen = 64
	MaxHops    = 64
)

// Attributes of subnet management (14.2.5, table 121).
const (
	AttrNotice          uint16 = 0x0002
	AttrNodeDescription uint16 = 0x0010
	AttrNodeInfo        uint16 = 0x0011
	AttrSwitchInfo      uint16 = 0x0012
	AttrGUIDInfo        uint16 = 0x0014
	AttrPortInfo        uint16 = 0x0015
	AttrPKeyTable       uint16 = 0x0016
	AttrSLtoVL          uint16 = 0x0017
	AttrVLArbitration   uint16 = 0x0018
	AttrSMInfo          uint16 = 0x0020
	AttrVendorDiag      uint16 = 0x0030
	AttrLEDInfo         uint16 = 0x0031
)

// SMP is a subnet management packet (14.2.1), LID routed or directed route.
//
//	byte 0:24    header
//	byte 24:8    M_Key
//	byte 32:2    DrSLID, directed route only
//	byte 34:2    DrDLID
//	byte 36:28   reserved
//	byte 64:64   attribute
//	byte 128:64  initial path, directed route only
//	byte 192:64  return path
type SMP struct {
	Header
	MKey        uint64
	DrSLID      uint16
	DrDLID      uint16
	Reserved28  [28]byte
	Data        [SMPDataLen]byte
	InitialPath [MaxHops]byte
	ReturnPath  [MaxHops]byte
}

// Put writes the packet to b[:Size]; b must be that long.
func (s *SMP) Put(b []byte) {
	_ = b[Size-1]
	s.Header.Put(b)
	binary.BigEndian.PutUint64(b[24:], s.MKey)
	binary.BigEndian.PutUint16(b[32:], s.DrSLID)
	binary.BigEndian.PutUint16(b[34:], s.DrDLID)
	copy(b[36:64], s.Reserved28[:])
	copy(b[64:128], s.Data[:])
	copy(b[128:192], s.InitialPath[:])
	copy(b[192:256], s.ReturnPath[:])
}

// Parse reads the packet from b[:Size]; b must be that long.
func (s *SMP) Parse(b []byte) {
	_ = b[Size-1]
	s.Header.Parse(b)
	s.MKey = binary.BigEndian.Uint64(b[24:])
	s.DrSLID, s.DrDLID = binary.BigEndian.Uint16(b[32:]), binary.BigEndian.Uint16(b[34:])
	s.Reserved28 = [28]byte(b[36:64])
	s.Data = [SMPDataLen]byte(b[64:128])
	s.InitialPath, s.ReturnPath = [MaxHops]byte(b[128:192]), [MaxHops]byte(b[192:256])
}

// HopPointer and HopCount are the two halves of Header.ClassSpecific of a directed route SMP.
func (s *SMP) HopPointer() uint8 { return uint8(s.ClassSpecific >> 8) }

// HopCount is the number of links that the packet crosses.
func (s *SMP) HopCount() uint8 { return uint8(s.ClassSpecific) }

// SetHops sets both.
func (s *SMP) SetHops(pointer, count uint8) { s.ClassSpecific = uint16(pointer)<<8 | uint16(count) }

// Check returns an *Error that names the first field that no sender may send so: ErrVersion, ErrReserved.
func (s *SMP) Check() error {
	if err := s.Header.Check(); err != nil {
		return err
	}
	c := checker{layout: "SMP"}
	c.zeros("Reserved28", s.Reserved28[:])
	return c.err
}
