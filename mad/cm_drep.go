package mad

// DREP is the response to a DREQ (12.6.11, table 115).
type DREP struct {
	LocalCommID  uint32               // bytes 0-3
	RemoteCommID uint32               // bytes 4-7
	PrivateData  [DREPPrivateLen]byte // bytes 8-231
}

// Attribute implements CMMessage.
func (*DREP) Attribute() uint16 { return AttrDREP }

// Private implements CMMessage.
func (m *DREP) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *DREP) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	copy(b[8:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *DREP) Parse(b []byte) {
	*m = DREP{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]),
		PrivateData: [DREPPrivateLen]byte(b[8:CMDataLen])}
}

// Check implements CMMessage. It returns nil: every value is valid.
func (m *DREP) Check() error { return nil }
