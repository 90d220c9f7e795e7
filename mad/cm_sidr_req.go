package mad

// SIDRREQ asks which QP serves a service ID, for datagrams (12.11.1, table 119).
//
//	byte 0:4  request ID
//	byte 4:2  P_Key
//	byte 6:2  reserved
//	byte 8:8  service ID
//	byte 16   private data
type SIDRREQ struct {
	RequestID   uint32
	PKey        uint16
	Reserved6   uint16
	ServiceID   ServiceID
	PrivateData [SIDRREQPrivateLen]byte
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
	*m = SIDRREQ{RequestID: be.Uint32(b), PKey: be.Uint16(b[4:]), Reserved6: be.Uint16(b[6:]), ServiceID: ServiceID(be.Uint64(b[8:])),
		PrivateData: [SIDRREQPrivateLen]byte(b[16:CMDataLen])}
}

// Check implements CMMessage.
func (m *SIDRREQ) Check() error {
	c := checker{layout: "SIDR_REQ"}
	c.zero("Reserved6", uint64(m.Reserved6))
	return c.err
}
