package mad

// CMDataLen is the length of a CM message, which follows the header, in bytes.
const CMDataLen = Size - HeaderLen

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

// Lengths of the private data of each message, in bytes. Private data always has its full length on the wire. Shorter
// data is padded with zeros, so a consumer that needs the length must include it in the data.
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

// CMInfoLen is the length of the additional information in REJ, APR and SIDR_REP, in bytes.
const CMInfoLen = 72

// CMMessage is a message of the communication manager: *REQ, *MRA, *REJ, *REP, *RTU, *DREQ, *DREP, *LAP, *APR,
// *SIDRREQ, *SIDRREP.
type CMMessage interface {
	// Attribute returns the attribute ID of the message.
	Attribute() uint16
	// Put writes the message to b[:CMDataLen]. It panics if b is shorter. Bits beyond a field's width are dropped;
	// Check reports them.
	Put(b []byte)
	// Parse reads the message from b[:CMDataLen]. It panics if b is shorter.
	Parse(b []byte)
	// Check returns an *Error for the first field that a sender must not send with its value: ErrRange for a value that
	// does not fit or that IBTA reserves, ErrReserved for reserved bits. It is for senders: receivers ignore reserved
	// bits.
	Check() error
	// Private returns the message's private data, not a copy of it.
	Private() []byte
}

// NewCMMessage returns an empty message for an attribute ID. It returns nil for an unknown ID.
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

// SetPrivate sets the private data of m to data, padded with zeros. It returns ErrLength, and leaves m unchanged, if
// data is longer than the message's private data.
func SetPrivate(m CMMessage, data []byte) error {
	p := m.Private()
	if len(data) > len(p) {
		return errorf(ErrLength, AttributeName(ClassCM, m.Attribute()), "PrivateData",
			"%d bytes, at most %d fit", len(data),
			len(p))
	}
	clear(p[copy(p, data):])
	return nil
}

// CMHeader returns the header of a datagram that carries m. All CM messages use method Send. Communication IDs and the
// transaction ID match responses with requests (12.6.1).
func CMHeader(tid uint64, m CMMessage) Header {
	return Header{BaseVersion: BaseVersion, Class: ClassCM, ClassVersion: ClassVersionCM, Method: Send, TID: tid,
		Attribute: m.Attribute()}
}

// AppendCM appends the datagram with header h and message m to dst. CMHeader returns a suitable header.
//
// Errors: ErrAttribute if h is the header of another message, and the errors of h.CheckCM, h.Check and m.Check.
// AppendCM then returns dst unchanged.
func AppendCM(dst []byte, h *Header, m CMMessage) ([]byte, error) {
	if err := h.CheckCM(); err != nil {
		return dst, err
	}
	if err := h.Check(); err != nil {
		return dst, err
	}
	if h.Attribute != m.Attribute() {
		return dst, errorf(ErrAttribute, "Header", "Attribute", "%s, want that of the message, %s",
			AttributeName(ClassCM, h.Attribute), AttributeName(ClassCM, m.Attribute()))
	}
	if err := m.Check(); err != nil {
		return dst, err
	}
	var b [Size]byte
	h.Put(b[:])
	m.Put(b[HeaderLen:])
	return append(dst, b[:]...), nil
}

// CheckCM validates the header of a received CM datagram.
//
// Errors: ErrClass; ErrVersion for a class version other than 2, which the manager answers with a REJ of reason
// RejClassVersion if the datagram is a REQ or REP (12.6.7.2); ErrMethod for a method other than Send.
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

// ParseCM parses a datagram received on QP1. Header and message keep every bit of the datagram, including reserved
// ones, so that their Put methods write the same bytes.
//
// Errors: those of ParseHeader and CheckCM; ErrAttribute for an attribute that is not a CM message. The header is
// filled in after every error except ErrLength.
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
