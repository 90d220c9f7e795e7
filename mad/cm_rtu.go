package mad

// RTU reports that the sender of the REQ is ready to use the connection (12.6.9, table 113).
type RTU struct {
	LocalCommID  uint32              // bytes 0-3
	RemoteCommID uint32              // bytes 4-7
	PrivateData  [RTUPrivateLen]byte // bytes 8-231
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
	*m = RTU{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]),
		PrivateData: [RTUPrivateLen]byte(b[8:CMDataLen])}
}

// Check implements CMMessage. It returns nil: every value is valid.
func (m *RTU) Check() error { return nil }
