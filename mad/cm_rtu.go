package mad

// RTU says that the sender of the REQ is ready to use the connection (12.6.9, table 113).
//
//	byte 0:4  local communication ID
//	byte 4:4  remote communication ID
//	byte 8    private data
type RTU struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [RTUPrivateLen]byte
}

// Attribute implements CMMessage.
func (*RTU) Attribute() uint16 { return AttrRTU }

// Private implements CMMessage.
func (m *RTU) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *RTU) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	copy(b[8:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *RTU) Parse(b []byte) {
	*m = RTU{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), PrivateData: [RTUPrivateLen]byte(b[8:CMDataLen])}
}

// Check implements CMMessage. Every value is a good one.
func (m *RTU) Check() error { return nil }
