package mad

// DREP answers a DREQ (12.6.11, table 115).
//
//	byte 0:4  local communication ID
//	byte 4:4  remote communication ID
//	byte 8    private data
type DREP struct {
	LocalCommID  uint32
	RemoteCommID uint32
	PrivateData  [DREPPrivateLen]byte
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
	*m = DREP{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), PrivateData: [DREPPrivateLen]byte(b[8:CMDataLen])}
}

// Check implements CMMessage. Every value is a good one.
func (m *DREP) Check() error { return nil }
