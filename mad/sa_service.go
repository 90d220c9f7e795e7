package mad

import "bytes"

// ServiceRecordLen is the length of a ServiceRecord in bytes, ServiceNameLen that of a service's name.
const (
	ServiceRecordLen = 176
	ServiceNameLen   = 64
)

// Components of a ServiceRecord (15.2.5.14, table 207). Each element of the data arrays is a component of its own: element i of Data8 is
// ServiceData8<<i, and so for the others.
const (
	ServiceRecordID  ComponentMask = 1 << 0
	ServiceGID       ComponentMask = 1 << 1
	ServicePKey      ComponentMask = 1 << 2
	ServiceLeaseTime ComponentMask = 1 << 4
	ServiceKey       ComponentMask = 1 << 5
	ServiceName      ComponentMask = 1 << 6
	ServiceData8     ComponentMask = 1 << 7
	ServiceData16    ComponentMask = 1 << 23
	ServiceData32    ComponentMask = 1 << 31
	ServiceData64    ComponentMask = 1 << 35
)

// LeaseForever in ServiceRecord.Lease is a service that stays until it is deleted.
const LeaseForever uint32 = 0xffffffff

// ServiceRecord is a service that a port has announced (15.2.5.14).
//
//	byte 0:8    service ID        byte 32:16   service key
//	byte 8:16   port's GID        byte 48:64   name
//	byte 24:2   P_Key             byte 112:16  data, as 8-bit numbers
//	byte 26:2   reserved          byte 128:16  data, as 16-bit numbers
//	byte 28:4   lease, seconds    byte 144:16  data, as 32-bit numbers
//	                              byte 160:16  data, as 64-bit numbers
type ServiceRecord struct {
	ServiceID  ServiceID
	GID        [16]byte
	PKey       uint16
	Reserved26 uint16
	Lease      uint32
	Key        [16]byte
	Name       [ServiceNameLen]byte // UTF-8, zeros behind it
	Data8      [16]uint8
	Data16     [8]uint16
	Data32     [4]uint32
	Data64     [2]uint64
}

// NameString gives the name up to the first zero byte.
func (s *ServiceRecord) NameString() string {
	name, _, _ := bytes.Cut(s.Name[:], []byte{0})
	return string(name)
}

// SetName sets the name.
//
// Errors: ErrLength for more than ServiceNameLen bytes; the name is then as it was.
func (s *ServiceRecord) SetName(name string) error {
	if len(name) > ServiceNameLen {
		return errorf(ErrLength, "ServiceRecord", "Name", "%d bytes, room for %d", len(name), ServiceNameLen)
	}
	clear(s.Name[copy(s.Name[:], name):])
	return nil
}

// Put writes the record to b[:ServiceRecordLen]; b must be that long.
func (s *ServiceRecord) Put(b []byte) {
	_ = b[ServiceRecordLen-1]
	be.PutUint64(b, uint64(s.ServiceID))
	copy(b[8:24], s.GID[:])
	be.PutUint16(b[24:], s.PKey)
	be.PutUint16(b[26:], s.Reserved26)
	be.PutUint32(b[28:], s.Lease)
	copy(b[32:48], s.Key[:])
	copy(b[48:112], s.Name[:])
	copy(b[112:128], s.Data8[:])
	for i, v := range s.Data16 {
		be.PutUint16(b[128+2*i:], v)
	}
	for i, v := range s.Data32 {
		be.PutUint32(b[144+4*i:], v)
	}
	for i, v := range s.Data64 {
		be.PutUint64(b[160+8*i:], v)
	}
}

// Parse reads the record from b[:ServiceRecordLen]; b must be that long.
func (s *ServiceRecord) Parse(b []byte) {
	_ = b[ServiceRecordLen-1]
	*s = ServiceRecord{ServiceID: ServiceID(be.Uint64(b)), GID: [16]byte(b[8:24]), PKey: be.Uint16(b[24:]), Reserved26: be.Uint16(b[26:]),
		Lease: be.Uint32(b[28:]), Key: [16]byte(b[32:48]), Name: [ServiceNameLen]byte(b[48:112]), Data8: [16]byte(b[112:128])}
	for i := range s.Data16 {
		s.Data16[i] = be.Uint16(b[128+2*i:])
	}
	for i := range s.Data32 {
		s.Data32[i] = be.Uint32(b[144+4*i:])
	}
	for i := range s.Data64 {
		s.Data64[i] = be.Uint64(b[160+8*i:])
	}
}

// Check returns an *Error around ErrReserved for reserved bits.
func (s *ServiceRecord) Check() error {
	c := checker{layout: "ServiceRecord"}
	c.zero("Reserved26", uint64(s.Reserved26))
	return c.err
}
