package mad

// DREQ requests the end of a connection (12.6.10, table 114).
type DREQ struct {
	LocalCommID  uint32               // bytes 0-3
	RemoteCommID uint32               // bytes 4-7
	RemoteQPN    uint32               // bytes 8-10: the receiver's QPN, or EECN for RD
	Reserved11   uint8                // byte 11
	PrivateData  [DREQPrivateLen]byte // bytes 12-231
}

// Attribute implements CMMessage.
func (*DREQ) Attribute() uint16 { return AttrDREQ }

// Private implements CMMessage.
func (m *DREQ) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *DREQ) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	put24(b[8:], m.RemoteQPN)
	b[11] = m.Reserved11
	copy(b[12:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *DREQ) Parse(b []byte) {
	*m = DREQ{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), RemoteQPN: get24(b[8:]), Reserved11: b[11],
		PrivateData: [DREQPrivateLen]byte(b[12:CMDataLen])}
}

// Check implements CMMessage.
func (m *DREQ) Check() error {
	c := checker{layout: "DREQ"}
	c.fits("RemoteQPN", uint64(m.RemoteQPN), 24)
	c.zero("Reserved11", uint64(m.Reserved11))
	return c.err
}
