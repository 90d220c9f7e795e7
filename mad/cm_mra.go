package mad

import "fmt"

// CMWhich tells in an MRA or a REJ which message it answers, two bits. The third value means something else in each.
type CMWhich uint8

// Messages answered (12.6.6, 12.6.7).
const (
	WhichREQ   CMWhich = 0
	WhichREP   CMWhich = 1
	WhichLAP   CMWhich = 2 // in MRA
	WhichOther CMWhich = 2 // in REJ: no message, or any other
)

func (w CMWhich) String() string {
	switch w {
	case WhichREQ:
		return "REQ"
	case WhichREP:
		return "REP"
	case WhichLAP:
		return "LAP or none"
	}
	return fmt.Sprintf("CMWhich(%d)", uint8(w))
}

// MRA says that a message has come and its answer takes longer (12.6.6, table 109).
//
//	byte 0:4  local communication ID
//	byte 4:4  remote communication ID
//	byte 8    message answered 2, reserved 6
//	byte 9    service timeout 5, reserved 3
//	byte 10   private data
type MRA struct {
	LocalCommID     uint32
	RemoteCommID    uint32
	Message         CMWhich // WhichREQ, WhichREP, WhichLAP
	ReservedMessage uint8   // six bits
	ServiceTimeout  TimeExp // how long the answer may take from now, packet life time apart
	ReservedTimeout uint8   // three bits
	PrivateData     [MRAPrivateLen]byte
}

// Attribute implements CMMessage.
func (*MRA) Attribute() uint16 { return AttrMRA }

// Private implements CMMessage.
func (m *MRA) Private() []byte { return m.PrivateData[:] }

// Put implements CMMessage.
func (m *MRA) Put(b []byte) {
	_ = b[CMDataLen-1]
	be.PutUint32(b, m.LocalCommID)
	be.PutUint32(b[4:], m.RemoteCommID)
	b[8] = uint8(m.Message)<<6 | m.ReservedMessage&0x3f
	b[9] = uint8(m.ServiceTimeout)<<3 | m.ReservedTimeout&7
	copy(b[10:CMDataLen], m.PrivateData[:])
}

// Parse implements CMMessage.
func (m *MRA) Parse(b []byte) {
	*m = MRA{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), Message: CMWhich(b[8] >> 6), ReservedMessage: b[8] & 0x3f,
		ServiceTimeout: TimeExp(b[9] >> 3), ReservedTimeout: b[9] & 7, PrivateData: [MRAPrivateLen]byte(b[10:CMDataLen])}
}

// Check implements CMMessage.
func (m *MRA) Check() error {
	c := checker{layout: "MRA"}
	c.within("Message", uint64(m.Message), 0, uint64(WhichLAP))
	c.zero("ReservedMessage", uint64(m.ReservedMessage))
	c.fits("ServiceTimeout", uint64(m.ServiceTimeout), 5)
	c.zero("ReservedTimeout", uint64(m.ReservedTimeout))
	return c.err
}
