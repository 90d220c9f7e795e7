package mad

// LAP requests that a new alternate path be loaded into an established connection (12.8.1, table 116).
type LAP struct {
	LocalCommID     uint32              // bytes 0-3
	RemoteCommID    uint32              // bytes 4-7
	Reserved8       uint32              // bytes 8-11
	RemoteQPN       uint32              // bytes 12-14: the receiver's QPN, or EECN for RD
	RemoteTimeout   TimeExp             // byte 15, bits 7-3: remote CM response timeout
	ReservedTimeout uint8               // byte 15, bits 2-0
	Reserved16      uint32              // bytes 16-19
	Alternate       CMPath              // bytes 20-63
	PrivateData     [LAPPrivateLen]byte // bytes 64-231
}

// Attribute implements CMMessage.
func (*LAP) Attribute() uint16 { return AttrLAP }

// Private implements CMMessage.
func (m *LAP) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *LAP) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	be.PutUint32(b[8:], m.Reserved8)
	put24(b[12:], m.RemoteQPN)
	b[15] = uint8(m.RemoteTimeout)<<3 | m.ReservedTimeout&7
	be.PutUint32(b[16:], m.Reserved16)
	m.Alternate.putLAP(b[20:])
	copy(b[64:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *LAP) Parse(b []byte) {
	*m = LAP{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), Reserved8: be.Uint32(b[8:]),
		RemoteQPN:     get24(b[12:]),
		RemoteTimeout: TimeExp(b[15] >> 3), ReservedTimeout: b[15] & 7, Reserved16: be.Uint32(b[16:]),
		PrivateData: [LAPPrivateLen]byte(b[64:CMDataLen])}
	m.Alternate.parseLAP(b[20:])
}

// Check implements CMMessage.
func (m *LAP) Check() error {
	c := checker{layout: "LAP"}
	c.zero("Reserved8", uint64(m.Reserved8))
	c.fits("RemoteQPN", uint64(m.RemoteQPN), 24)
	c.fits("RemoteTimeout", uint64(m.RemoteTimeout), 5)
	c.zero("ReservedTimeout", uint64(m.ReservedTimeout))
	c.zero("Reserved16", uint64(m.Reserved16))
	m.Alternate.check(&c, "Alternate.")
	return c.err
}
