package mad

import "encoding/binary"

// Size is the length of every management datagram in bytes, HeaderLen that of the common header (13.4.2).
const (
	Size      = 256
	HeaderLen = 24
)

// Class is a management class.
type Class uint8

// Classes (13.4.4, table 110).
const (
	ClassSubnetLID      Class = 0x01 // subnet management, LID routed
	ClassSubnetAdmin    Class = 0x03
	ClassPerformance    Class = 0x04
	ClassBoard          Class = 0x05
	ClassDevice         Class = 0x06
	ClassCM             Class = 0x07
	ClassSNMP           Class = 0x08
	ClassSubnetDirected Class = 0x81 // subnet management, directed route
)

// Method is what a datagram does; bit 7 marks a response.
type Method uint8

// Methods (13.4.5, table 111).
const (
	Get          Method = 0x01
	Set          Method = 0x02
	Send         Method = 0x03
	Trap         Method = 0x05
	Report       Method = 0x06
	TrapRepress  Method = 0x07
	GetResp      Method = 0x81
	ReportResp   Method = 0x86
	ResponseMask Method = 0x80
)

// Status bits 0-4, common to all classes (13.4.7, table 113). The upper byte is the class's own.
const (
	StatusOK                 uint16 = 0
	StatusBusy               uint16 = 0x0001
	StatusRedirect           uint16 = 0x0002
	StatusBadVersion         uint16 = 0x0004
	StatusBadMethod          uint16 = 0x0008
	StatusBadMethodAttribute uint16 = 0x000c
	StatusBadField           uint16 = 0x001c
	StatusDirection          uint16 = 0x8000 // directed route SMPs: the D bit, set on the way back
)

// Header is the common header.
//
//	byte 0     base version, 1
//	byte 1     management class
//	byte 2     class version
//	byte 3     R bit and method
//	byte 4:2   status; of a directed route SMP bit 15 is the direction
//	byte 6:2   class specific; of a directed route SMP hop pointer and hop count
//	byte 8:8   transaction ID
//	byte 16:2  attribute ID
//	byte 18:2  reserved
//	byte 20:4  attribute modifier
type Header struct {
	BaseVersion   uint8
	Class         Class
	ClassVersion  uint8
	Method        Method
	Status        uint16
	ClassSpecific uint16
	TID           uint64
	Attribute     uint16
	Reserved      uint16
	Modifier      uint32
}

// Put writes the header to b[:HeaderLen]; b must be that long.
func (h *Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1], b[2], b[3] = h.BaseVersion, uint8(h.Class), h.ClassVersion, uint8(h.Method)
	binary.BigEndian.PutUint16(b[4:], h.Status)
	binary.BigEndian.PutUint16(b[6:], h.ClassSpecific)
	binary.BigEndian.PutUint64(b[8:], h.TID)
	binary.BigEndian.PutUint16(b[16:], h.Attribute)
	binary.BigEndian.PutUint16(b[18:], h.Reserved)
	binary.BigEndian.PutUint32(b[20:], h.Modifier)
}

// Parse reads the header from b[:HeaderLen]; b must be that long.
func (h *Header) Parse(b []byte) {
	_ = b[HeaderLen-1]
	*h = Header{BaseVersion: b[0], Class: Class(b[1]), ClassVersion: b[2], Method: Method(b[3]), Status: binary.BigEndian.Uint16(b[4:]),
		ClassSpecific: binary.BigEndian.Uint16(b[6:]), TID: binary.BigEndian.Uint64(b[8:]), Attribute: binary.BigEndian.Uint16(b[16:]),
		Reserved: binary.BigEndian.Uint16(b[18:]), Modifier: binary.BigEndian.Uint32(b[20:])}
}
