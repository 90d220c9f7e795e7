package mad

// CMDataLen is the length of a CM message, which fills what the header leaves, in bytes.
const CMDataLen = GMPDataLen

// Attributes of the communication manager, one per message (12.6, 16.7.2).
const (
	AttrREQ     uint16 = 0x0010
	AttrMRA     uint16 = 0x0011
	AttrREJ     uint16 = 0x0012
	AttrREP     uint16 = 0x0013
	AttrRTU     uint16 = 0x0014
	AttrDREQ    uint16 = 0x0015
	AttrDREP    uint16 = 0x0016
	AttrSIDRREQ uint16 = 0x0017
	AttrSIDRREP uint16 = 0x0018
	AttrLAP     uint16 = 0x0019
	AttrAPR     uint16 = 0x001a
)

// Private data that each message carries, in bytes. It always has its full length on the wire; who sends less sends zeros behind it, and
// consumers that need a length put one into it.
const (
	REQPrivateLen     = 92
	MRAPrivateLen     = 222
	REJPrivateLen     = 148
	REPPrivateLen     = 196
	RTUPrivateLen     = 224
	DREQPrivateLen    = 220
	DREPPrivateLen    = 224
	LAPPrivateLen     = 168
	APRPrivateLen     = 148
	SIDRREQPrivateLen = 216
	SIDRREPPrivateLen = 136
)

// CMInfoLen is the room for additional information in REJ, APR and SIDR_REP, in bytes.
const CMInfoLen = 72

// CMMessage is a message of the communication manager: *REQ, *MRA, *REJ, *REP, *RTU, *DREQ, *DREP, *LAP, *APR, *SIDRREQ, *SIDRREP.
type CMMessage interface {
	// Attribute is the message's attribute ID.
	Attribute() uint16
	// Put writes the message to b[:CMDataLen]; b must be that long. Bits beyond a field's width are cut off; Check finds them.
	Put(b []byte)
	// Parse reads the message from b[:CMDataLen]; b must be that long.
	Parse(b []byte)
	// Check returns an *Error that names the first field that no sender may send so: ErrRange for values that do not fit or that IBTA
	// reserves, ErrReserved for reserved bits. A receiver ignores reserved bits, so it has no reason to ask.
	Check() error
	// Private is the message's private data, not a copy.
	Private() []byte
}

// NewCMMessage gives an empty message for an attribute ID, nil if there is none.
func NewCMMessage(attr uint16) CMMessage {
	switch attr {
	case AttrREQ:
		return new(REQ)
	case AttrMRA:
		return new(MRA)
	case AttrREJ:
		return new(REJ)
	case AttrREP:
		return new(REP)
	case AttrRTU:
		return new(RTU)
	case AttrDREQ:
		return new(DREQ)
	case AttrDREP:
		return new(DREP)
	case AttrSIDRREQ:
		return new(SIDRREQ)
	case AttrSIDRREP:
		return new(SIDRREP)
	case AttrLAP:
		return new(LAP)
	case AttrAPR:
		return new(APR)
	}
	return nil
}

// SetPrivate makes data the private data of m, zeros behind it.
//
// Errors: ErrLength if there is more than the message has room for; m is then as it was.
func SetPrivate(m CMMessage, data []byte) error {
	p := m.Private()
	if len(data) > len(p) {
		return errorf(ErrLength, AttributeName(ClassCM, m.Attribute()), "PrivateData", "%d bytes, room for %d", len(data), len(p))
	}
	clear(p[copy(p, data):])
	return nil
}

// CMHeader gives the header of a datagram that carries m. All CM messages are of method Send, answers too; what belongs together is told
// by communication IDs and transaction ID (12.6.1).
func CMHeader(tid uint64, m CMMessage) Header {
	return Header{BaseVersion: BaseVersion, Class: ClassCM, ClassVersion: ClassVersionCM, Method: Send, TID: tid, Attribute: m.Attribute()}
}

// AppendCM appends the datagram with header h, see CMHeader, and message m to dst.
//
// Errors: ErrAttribute if h names another message, those of CheckCM for h and of m.Check; dst is then returned as it was.
func AppendCM(dst []byte, h *Header, m CMMessage) ([]byte, error) {
	if err := h.CheckCM(); err != nil {
		return dst, err
	}
	if err := h.Check(); err != nil {
		return dst, err
	}
	if h.Attribute != m.Attribute() {
		return dst, errorf(ErrAttribute, "Header", "Attribute", "%s over a %s", AttributeName(ClassCM, h.Attribute), AttributeName(ClassCM, m.Attribute()))
	}
	if err := m.Check(); err != nil {
		return dst, err
	}
	var b [Size]byte
	h.Put(b[:])
	m.Put(b[HeaderLen:])
	return append(dst, b[:]...), nil
}

// CheckCM judges the header of a received CM datagram.
//
// Errors: ErrClass; ErrVersion for another class version than 2, which the manager answers with REJ and RejClassVersion if it is a REQ
// or REP (12.6.7.2); ErrMethod for all but Send.
func (h *Header) CheckCM() error {
	switch {
	case h.Class != ClassCM:
		return errorf(ErrClass, "Header", "Class", "%v, want %v", h.Class, ClassCM)
	case h.ClassVersion != ClassVersionCM:
		return errorf(ErrVersion, "Header", "ClassVersion", "%d, want %d", h.ClassVersion, ClassVersionCM)
	case h.Method != Send:
		return errorf(ErrMethod, "Header", "Method", "%v, want %v", h.Method, Send)
	}
	return nil
}

// ParseCM takes apart a datagram that came from QP1. The message has every bit of the datagram, reserved ones included: header and
// message Put give the same bytes again.
//
// Errors: those of ParseHeader and CheckCM, ErrAttribute for an attribute that is no message; the header is filled in all the same, but
// for ErrLength.
func ParseCM(b []byte) (Header, CMMessage, error) {
	h, err := ParseHeader(b)
	if err == nil {
		err = h.CheckCM()
	}
	if err != nil {
		return h, nil, err
	}
	m := NewCMMessage(h.Attribute)
	if m == nil {
		return h, nil, errorf(ErrAttribute, "Header", "Attribute", "%s", AttributeName(ClassCM, h.Attribute))
	}
	m.Parse(b[HeaderLen:])
	return h, m, nil
}
