package mad

// REJ refuses a connection or ends one that is not up yet (12.6.7, table 110).
//
//	byte 0:4    local communication ID, 0 if the sender has none
//	byte 4:4    remote communication ID
//	byte 8      message rejected 2, reserved 6
//	byte 9      info length 7, reserved 1
//	byte 10:2   reason
//	byte 12:72  additional information
//	byte 84     private data
type REJ struct {
	LocalCommID     uint32
	RemoteCommID    uint32
	Message         CMWhich // WhichREQ, WhichREP, WhichOther
	ReservedMessage uint8   // six bits
	InfoLength      uint8   // seven bits; see AdditionalInfo
	ReservedLength  uint8   // one bit
	Reason          RejReason
	Info            [CMInfoLen]byte // what depends on the reason: the value that would do, or the GID, LID, … to use
	PrivateData     [REJPrivateLen]byte
}

// AdditionalInfo is the valid part of Info; a length beyond its room, which only a broken sender gives, counts as all of it.
func (m *REJ) AdditionalInfo() []byte { return m.Info[:min(int(m.InfoLength), CMInfoLen)] }

// SetAdditionalInfo sets Info and InfoLength.
//
// Errors: ErrLength for more than CMInfoLen bytes; m is then as it was.
func (m *REJ) SetAdditionalInfo(info []byte) error {
	return setInfo("REJ", &m.Info, &m.InfoLength, info)
}

// setInfo is what messages with additional information share.
func setInfo(layout string, to *[CMInfoLen]byte, length *uint8, info []byte) error {
	if len(info) > CMInfoLen {
		return errorf(ErrLength, layout, "Info", "%d bytes, room for %d", len(info), CMInfoLen)
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
	*m = REJ{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), Message: CMWhich(b[8] >> 6), ReservedMessage: b[8] & 0x3f,
		InfoLength: b[9] >> 1, ReservedLength: b[9] & 1, Reason: RejReason(be.Uint16(b[10:])), Info: [CMInfoLen]byte(b[12:84]),
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
