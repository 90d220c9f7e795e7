package mad

import "encoding/binary"

// Size is the length of every management datagram, and HeaderLen that of the common header, in bytes (13.4.2).
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
	ClassDeviceAdmin    Class = 0x10
	ClassBoot           Class = 0x11
	ClassBIS            Class = 0x12
	ClassCongestion     Class = 0x21
	ClassSubnetDirected Class = 0x81 // subnet management, directed route

	// Classes of vendors. Datagrams of range 2 have an OUI after the RMPP header, those of range 1 have none.
	ClassVendor1First Class = 0x09
	ClassVendor1Last  Class = 0x0f
	ClassVendor2First Class = 0x30
	ClassVendor2Last  Class = 0x4f
)

// Versions of the common header (13.4.3) and of the classes (14.2, 15.2, 16.1, 16.7).
const (
	BaseVersion             = 1
	ClassVersionSubnet      = 1
	ClassVersionSubnetAdmin = 2
	ClassVersionPerformance = 1
	ClassVersionCM          = 2
)

// QKeyGSI is the well-known Q_Key of QP1 (10.2.5). QP0 has no Q_Key, and its packets carry 0.
const QKeyGSI uint32 = 0x80010000

// Method is the method of a datagram. Bit 7 is set in responses.
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

// Methods of subnet administration (15.2.2).
const (
	GetTable          Method = 0x12
	GetTraceTable     Method = 0x13
	GetMulti          Method = 0x14
	Delete            Method = 0x15
	GetTableResp      Method = 0x92
	GetTraceTableResp Method = 0x93
	GetMultiResp      Method = 0x94
	DeleteResp        Method = 0x95
)

// Header is the common header of management datagrams (13.4.3).
type Header struct {
	BaseVersion   uint8  // byte 0: 1
	Class         Class  // byte 1
	ClassVersion  uint8  // byte 2
	Method        Method // byte 3: the R bit (ResponseMask) and the method
	Status        uint16 // bytes 4-5: in a directed route SMP, bit 15 is the D bit: StatusDirection
	ClassSpecific uint16 // bytes 6-7: in a directed route SMP, the hop pointer and the hop count
	TID           uint64 // bytes 8-15: transaction ID
	Attribute     uint16 // bytes 16-17: attribute ID
	Reserved      uint16 // bytes 18-19
	Modifier      uint32 // bytes 20-23: attribute modifier
}

// Put writes the header to b[:HeaderLen]. It panics if b is shorter.
func (h *Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1] = h.BaseVersion, uint8(h.Class)
	b[2], b[3] = h.ClassVersion, uint8(h.Method)
	binary.BigEndian.PutUint16(b[4:], h.Status)
	binary.BigEndian.PutUint16(b[6:], h.ClassSpecific)
	binary.BigEndian.PutUint64(b[8:], h.TID)
	binary.BigEndian.PutUint16(b[16:], h.Attribute)
	binary.BigEndian.PutUint16(b[18:], h.Reserved)
	binary.BigEndian.PutUint32(b[20:], h.Modifier)
}

// Parse reads the header from b[:HeaderLen]. It panics if b is shorter.
func (h *Header) Parse(b []byte) {
	_ = b[HeaderLen-1]
	*h = Header{BaseVersion: b[0], Class: Class(b[1]), ClassVersion: b[2], Method: Method(b[3]),
		Status:        binary.BigEndian.Uint16(b[4:]),
		ClassSpecific: binary.BigEndian.Uint16(b[6:]), TID: binary.BigEndian.Uint64(b[8:]),
		Attribute: binary.BigEndian.Uint16(b[16:]),
		Reserved:  binary.BigEndian.Uint16(b[18:]), Modifier: binary.BigEndian.Uint32(b[20:])}
}

// Response reports whether the datagram is a response: the R bit is set, or it is a TrapRepress, which answers the Trap
// with the same transaction ID.
func (h *Header) Response() bool { return h.Method&ResponseMask != 0 || h.Method == TrapRepress }

// Check returns an *Error: ErrVersion for a base version other than 1, ErrReserved for reserved bits.
func (h *Header) Check() error {
	c := checker{layout: "Header"}
	if h.BaseVersion != BaseVersion {
		c.fail(ErrVersion, "BaseVersion", "%d, want %d", h.BaseVersion, BaseVersion)
	}
	c.zero("Reserved", uint64(h.Reserved))
	return c.err
}

// ParseHeader reads the header of a datagram that was received on QP0 or QP1.
//
// Errors: ErrLength if b does not have Size bytes; ErrVersion if the base version is not 1. The header is filled in
// after ErrVersion.
func ParseHeader(b []byte) (h Header, err error) {
	if len(b) != Size {
		return h, errorf(ErrLength, "Header", "datagram", "%d bytes, want %d", len(b), Size)
	}
	h.Parse(b)
	if h.BaseVersion != BaseVersion {
		err = errorf(ErrVersion, "Header", "BaseVersion", "%d, want %d", h.BaseVersion, BaseVersion)
	}
	return h, err
}
