package mad

// LAP loads an alternate path into a live connection (12.8.1, table 116).
//
//	byte 0:4    local communication ID
//	byte 4:4    remote communication ID
//	byte 8:4    reserved
//	byte 12:3   remote QPN, of RD the EECN
//	byte 15     remote CM response timeout 5, reserved 3
//	byte 16:4   reserved
//	byte 20:44  alternate path
//	byte 64     private data
type LAP struct {
	LocalCommID     uint32
	RemoteCommID    uint32
	Reserved8       uint32
	RemoteQPN       uint32 // 24 bits
	RemoteTimeout   TimeExp
	ReservedTimeout uint8 // three bits
	Reserved16      uint32
	Alternate       CMPath
	PrivateData     [LAPPrivateLen]byte
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
	*m = LAP{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), Reserved8: be.Uint32(b[8:]), RemoteQPN: get24(b[12:]),
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
