package mad

import "bytes"

// ServiceRecordLen is the length of a ServiceRecord, and ServiceNameLen that of a service name, in bytes.
const (
	ServiceRecordLen = 176
	ServiceNameLen   = 64
)

// Components of a ServiceRecord (15.2.5.14, table 207). Each element of the data arrays is a component: element i of
// Data8 is ServiceData8<<i, and likewise for the other arrays.
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

// LeaseForever in ServiceRecord.Lease registers a service until it is deleted.
const LeaseForever uint32 = 0xffffffff

// ServiceRecord is a service that a port has registered with the subnet administrator (15.2.5.14).
type ServiceRecord struct {
	ServiceID  ServiceID            // bytes 0-7
	GID        [16]byte             // bytes 8-23: GID of the port
	PKey       uint16               // bytes 24-25
	Reserved26 uint16               // bytes 26-27
	Lease      uint32               // bytes 28-31: seconds, or LeaseForever
	Key        [16]byte             // bytes 32-47: service key
	Name       [ServiceNameLen]byte // bytes 48-111: UTF-8, padded with zeros
	Data8      [16]uint8            // bytes 112-127
	Data16     [8]uint16            // bytes 128-143
	Data32     [4]uint32            // bytes 144-159
	Data64     [2]uint64            // bytes 160-175
}

// NameString returns the name up to the first zero byte.
func (s *ServiceRecord) NameString() string {
	name, _, _ := bytes.Cut(s.Name[:], []byte{0})
	return string(name)
}

// SetName sets the name. It returns ErrLength, and leaves the name unchanged, if name has more than ServiceNameLen
// bytes.
func (s *ServiceRecord) SetName(name string) error {
	if len(name) > ServiceNameLen {
		return errorf(ErrLength, "ServiceRecord", "Name", "%d bytes, at most %d fit", len(name), ServiceNameLen)
	}
	clear(s.Name[copy(s.Name[:], name):])
	return nil
}

// Put writes the record to b[:ServiceRecordLen]. It panics if b is shorter.
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

// Parse reads the record from b[:ServiceRecordLen]. It panics if b is shorter.
func (s *ServiceRecord) Parse(b []byte) {
	_ = b[ServiceRecordLen-1]
	*s = ServiceRecord{ServiceID: ServiceID(be.Uint64(b)), GID: [16]byte(b[8:24]), PKey: be.Uint16(b[24:]),
		Reserved26: be.Uint16(b[26:]),
		Lease:      be.Uint32(b[28:]), Key: [16]byte(b[32:48]), Name: [ServiceNameLen]byte(b[48:112]),
		Data8: [16]byte(b[112:128])}
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
