package mad

import "encoding/binary"

// SMPDataLen is the length of the attribute of an SMP in bytes. MaxHops is the number of entries in a path; entry 0 is
// not used.
const (
	SMPDataLen = 64
	MaxHops    = 64
)

// PermissiveLID reaches the port at the other end of a link whatever its LID is (4.1.3). It is DrSLID or DrDLID of a
// directed route SMP whose route has no LID-routed part at that end.
const PermissiveLID uint16 = 0xffff

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
	AttrLinearTable     uint16 = 0x0019 // LinearForwardingTable
	AttrRandomTable     uint16 = 0x001a // RandomForwardingTable
	AttrMulticastTable  uint16 = 0x001b // MulticastForwardingTable
	AttrSMInfo          uint16 = 0x0020
	AttrVendorDiag      uint16 = 0x0030
	AttrLEDInfo         uint16 = 0x0031
)

// SMP is a subnet management packet (14.2.1), LID routed or directed route.
type SMP struct {
	Header                       // bytes 0-23
	MKey        uint64           // bytes 24-31: M_Key
	DrSLID      uint16           // bytes 32-33: directed route only
	DrDLID      uint16           // bytes 34-35: directed route only
	Reserved28  [28]byte         // bytes 36-63
	Data        [SMPDataLen]byte // bytes 64-127: the attribute
	InitialPath [MaxHops]byte    // bytes 128-191: directed route only; entry 0 is not used
	ReturnPath  [MaxHops]byte    // bytes 192-255: directed route only; entry 0 is not used
}

// Put writes the packet to b[:Size]. It panics if b is shorter.
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

// Parse reads the packet from b[:Size]. It panics if b is shorter.
func (s *SMP) Parse(b []byte) {
	_ = b[Size-1]
	s.Header.Parse(b)
	s.MKey = binary.BigEndian.Uint64(b[24:])
	s.DrSLID, s.DrDLID = binary.BigEndian.Uint16(b[32:]), binary.BigEndian.Uint16(b[34:])
	s.Reserved28 = [28]byte(b[36:64])
	s.Data = [SMPDataLen]byte(b[64:128])
	s.InitialPath, s.ReturnPath = [MaxHops]byte(b[128:192]), [MaxHops]byte(b[192:256])
}

// HopPointer returns the hop pointer of a directed route SMP, the upper byte of Header.ClassSpecific.
func (s *SMP) HopPointer() uint8 { return uint8(s.ClassSpecific >> 8) }

// HopCount returns the hop count of a directed route SMP: the number of links that it crosses. It is the lower byte of
// Header.ClassSpecific.
func (s *SMP) HopCount() uint8 { return uint8(s.ClassSpecific) }

// SetHops sets the hop pointer and the hop count.
func (s *SMP) SetHops(pointer, count uint8) { s.ClassSpecific = uint16(pointer)<<8 | uint16(count) }
