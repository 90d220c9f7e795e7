package mad

// SIDRREQ requests the QPN and Q_Key of the UD QP that serves a service ID (12.11.1, table 119).
type SIDRREQ struct {
	RequestID   uint32                  // bytes 0-3
	PKey        uint16                  // bytes 4-5
	Reserved6   uint16                  // bytes 6-7
	ServiceID   ServiceID               // bytes 8-15
	PrivateData [SIDRREQPrivateLen]byte // bytes 16-231
}

// Attribute implements CMMessage.
func (*SIDRREQ) Attribute() uint16 { return AttrSIDRREQ }

// Private implements CMMessage.
func (m *SIDRREQ) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *SIDRREQ) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.RequestID)
	be.PutUint16(b[4:], m.PKey)
	be.PutUint16(b[6:], m.Reserved6)
	be.PutUint64(b[8:], uint64(m.ServiceID))
	copy(b[16:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *SIDRREQ) Parse(b []byte) {
	*m = SIDRREQ{RequestID: be.Uint32(b), PKey: be.Uint16(b[4:]), Reserved6: be.Uint16(b[6:]),
		ServiceID:   ServiceID(be.Uint64(b[8:])),
		PrivateData: [SIDRREQPrivateLen]byte(b[16:CMDataLen])}
}

// Check implements CMMessage.
func (m *SIDRREQ) Check() error {
	c := checker{layout: "SIDR_REQ"}
	c.zero("Reserved6", uint64(m.Reserved6))
	return c.err
}
