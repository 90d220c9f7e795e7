package mad

// REJ rejects a connection request, or ends a connection that is not yet established (12.6.7, table 110).
type REJ struct {
	LocalCommID     uint32              // bytes 0-3: 0 if the sender has none
	RemoteCommID    uint32              // bytes 4-7
	Message         CMWhich             // byte 8, bits 7-6: the rejected message: WhichREQ, WhichREP or WhichOther
	ReservedMessage uint8               // byte 8, bits 5-0
	InfoLength      uint8               // byte 9, bits 7-1: valid bytes of Info; see AdditionalInfo
	ReservedLength  uint8               // byte 9, bit 0
	Reason          RejReason           // bytes 10-11
	Info            [CMInfoLen]byte     // bytes 12-83: depends on Reason, such as an acceptable value
	PrivateData     [REJPrivateLen]byte // bytes 84-231
}

// AdditionalInfo returns the first InfoLength bytes of Info. If a peer sent a larger InfoLength, it returns all of
// Info.
func (m *REJ) AdditionalInfo() []byte { return m.Info[:min(int(m.InfoLength), CMInfoLen)] }

// SetAdditionalInfo sets Info and InfoLength. It returns ErrLength, and leaves m unchanged, if info has more than
// CMInfoLen bytes.
func (m *REJ) SetAdditionalInfo(info []byte) error {
	return setInfo("REJ", &m.Info, &m.InfoLength, info)
}

// setInfo sets the additional information of a message.
func setInfo(layout string, to *[CMInfoLen]byte, length *uint8, info []byte) error {
	if len(info) > CMInfoLen {
		return errorf(ErrLength, layout, "Info", "%d bytes, at most %d fit", len(info), CMInfoLen)
	}
	clear(to[copy(to[:], info):])
	*length = uint8(len(info))
	return nil
}

// Attribute implements CMMessage.
func (*REJ) Attribute() uint16 { return AttrREJ }

// Private implements CMMessage.
func (m *REJ) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *REJ) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	b[8] = uint8(m.Message)<<6 | m.ReservedMessage&0x3f
	b[9] = m.InfoLength<<1 | m.ReservedLength&1
	be.PutUint16(b[10:], uint16(m.Reason))
	copy(b[12:84], m.Info[:])
	copy(b[84:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *REJ) Parse(b []byte) {
	*m = REJ{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), Message: CMWhich(b[8] >> 6),
		ReservedMessage: b[8] & 0x3f,
		InfoLength:      b[9] >> 1, ReservedLength: b[9] & 1, Reason: RejReason(be.Uint16(b[10:])),
		Info:        [CMInfoLen]byte(b[12:84]),
		PrivateData: [REJPrivateLen]byte(b[84:CMDataLen])}
}

// Check implements CMMessage.
func (m *REJ) Check() error {
	c := checker{layout: "REJ"}
	c.within("Message", uint64(m.Message), 0, uint64(WhichOther))
	c.zero("ReservedMessage", uint64(m.ReservedMessage))
	c.within("InfoLength", uint64(m.InfoLength), 0, CMInfoLen)
	c.zero("ReservedLength", uint64(m.ReservedLength))
	return c.err
}
