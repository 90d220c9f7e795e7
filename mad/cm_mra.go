package mad

import "fmt"

// CMWhich identifies the message that an MRA or REJ answers. It has two bits. Value 2 has different meanings in the
// two.
type CMWhich uint8

// Values of CMWhich (12.6.6, 12.6.7).
const (
	WhichREQ   CMWhich = 0
	WhichREP   CMWhich = 1
	WhichLAP   CMWhich = 2 // in an MRA
	WhichOther CMWhich = 2 // in a REJ: any other message, or none
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

// MRA acknowledges a message whose response will take longer than the sender of the message expects (12.6.6, table
// 109).
type MRA struct {
	LocalCommID     uint32              // bytes 0-3
	RemoteCommID    uint32              // bytes 4-7
	Message         CMWhich             // byte 8, bits 7-6: the answered message: WhichREQ, WhichREP or WhichLAP
	ReservedMessage uint8               // byte 8, bits 5-0
	ServiceTimeout  TimeExp             // byte 9, bits 7-3: time until the answer, without packet lifetime
	ReservedTimeout uint8               // byte 9, bits 2-0
	PrivateData     [MRAPrivateLen]byte // bytes 10-231
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
	*m = MRA{LocalCommID: be.Uint32(b), RemoteCommID: be.Uint32(b[4:]), Message: CMWhich(b[8] >> 6),
		ReservedMessage: b[8] & 0x3f,
		ServiceTimeout:  TimeExp(b[9] >> 3), ReservedTimeout: b[9] & 7,
		PrivateData: [MRAPrivateLen]byte(b[10:CMDataLen])}
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
