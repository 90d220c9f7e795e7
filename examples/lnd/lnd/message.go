package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Type is what a message is for.
type Type uint8

// The messages of the protocol. Those up to ConnAck travel in the private data of the connection manager.
const (
	ConnReq   Type = 0xc0 // request to connect: what we want
	ConnAck   Type = 0xc1 // what both will have
	Noop      Type = 0xd0 // credits, or a sign of life
	Immediate Type = 0xd1 // an LNet message that is short enough
	PutReq    Type = 0xd2 // source: I have something to write
	PutNak    Type = 0xd3 // sink: no
	PutAck    Type = 0xd4 // sink: write it there
	PutDone   Type = 0xd5 // source: written
	GetReq    Type = 0xd6 // sink: write it there
	GetDone   Type = 0xd7 // source: written, or there is nothing
)

var typeNames = map[Type]string{ConnReq: "CONNREQ", ConnAck: "CONNACK", Noop: "NOOP", Immediate: "IMMEDIATE", PutReq: "PUT_REQ", PutNak: "PUT_NAK",
	PutAck: "PUT_ACK", PutDone: "PUT_DONE", GetReq: "GET_REQ", GetDone: "GET_DONE"}

func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return fmt.Sprintf("message type %#x", uint8(t))
}

// Message is one message; which of the later fields count depends on Type.
type Message struct {
	Version            uint16
	Type               Type
	Credits            uint8 // given back to the receiver
	From, To           NID
	FromStamp, ToStamp uint64 // incarnations: when either end was started

	Params Params     // ConnReq, ConnAck
	LNet   LNetHeader // Immediate, PutReq, GetReq
	// Cookie names the transfer at its owner: the sender of PutReq and GetReq, the receiver of the others. SinkCookie is the sender's, of
	// PutAck. They mean nothing to the other end, and keep the byte order in which they came.
	Cookie, SinkCookie uint64
	Desc               Descriptor // PutAck, GetReq: where to write
	Status             int32      // PutNak, PutDone, GetDone: a negative errno, or 0; of GetDone a length
	Payload            []byte     // Immediate
}

// Descriptor is memory of a peer: pieces, in order, under one key.
type Descriptor struct {
	Key   uint32
	Frags []Frag
}

// Frag is one piece.
type Frag struct {
	Addr uint64
	Len  uint32
}

// Len is the bytes of all pieces.
func (d Descriptor) Len() (n uint64) {
	for _, f := range d.Frags {
		n += uint64(f.Len)
	}
	return n
}

// Sizes in bytes.
const (
	MsgSize      = 4096 // the longest message
	headerLen    = 48
	lnetLen      = 72
	fragLen      = 12
	MaxImmediate = MsgSize - headerLen - lnetLen // payload of Immediate
	MaxFrags     = 257                           // 1 MiB that begins in the middle of a page
)

const (
	magic    = 0x0be91b91
	version1 = 0x11
	version2 = 0x12
)

// Errors of Parse.
var (
	ErrMagic   = errors.New("lnd: no message of this protocol")
	ErrVersion = errors.New("lnd: unknown version of the protocol")
	ErrMessage = errors.New("lnd: malformed message")
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMessage, fmt.Sprintf(format, args...))
}

// byteOrder is the sender's: the receiver finds out by the magic number.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// Append encodes m behind b, in little-endian order, with a checksum if wanted.
func (m *Message) Append(b []byte, checksum bool) []byte {
	return m.append(b, binary.LittleEndian, checksum)
}

func (m *Message) append(b []byte, o byteOrder, checksum bool) []byte {
	start := len(b)
	b = o.AppendUint32(b, magic)
	b = o.AppendUint16(b, m.Version)
	b = append(b, byte(m.Type), m.Credits)
	b = o.AppendUint64(b, 0) // length and checksum come last
	for _, x := range []uint64{uint64(m.From), m.FromStamp, uint64(m.To), m.ToStamp} {
		b = o.AppendUint64(b, x)
	}
	switch m.Type {
	case ConnReq, ConnAck:
		b = m.Params.append(b, o)
	case Immediate:
		b = append(m.LNet.append(b), m.Payload...)
	case PutReq:
		b = appendCookie(m.LNet.append(b), m.Cookie)
	case PutNak, PutDone, GetDone:
		b = o.AppendUint32(appendCookie(b, m.Cookie), uint32(m.Status))
	case PutAck:
		b = m.Desc.append(appendCookie(appendCookie(b, m.Cookie), m.SinkCookie), o)
	case GetReq:
		b = m.Desc.append(appendCookie(m.LNet.append(b), m.Cookie), o)
	}
	msg := b[start:]
	o.PutUint32(msg[8:], uint32(len(msg)))
	if checksum {
		o.PutUint32(msg[12:], sumSigned(msg))
	}
	return b
}

func appendCookie(b []byte, c uint64) []byte { return binary.LittleEndian.AppendUint64(b, c) }

func (d Descriptor) append(b []byte, o byteOrder) []byte {
	b = o.AppendUint32(b, d.Key)
	b = o.AppendUint32(b, uint32(len(d.Frags)))
	for _, f := range d.Frags {
		b = o.AppendUint32(b, f.Len)
		b = o.AppendUint64(b, f.Addr)
	}
	return b
}

// bodyLen is the shortest body of each type.
var bodyLen = map[Type]int{ConnReq: 8, ConnAck: 8, Noop: 0, Immediate: lnetLen, PutReq: lnetLen + 8, PutNak: 12, PutAck: 16 + 8, PutDone: 12,
	GetReq: lnetLen + 8 + 8, GetDone: 12}

// Parse decodes a message in either byte order; Payload is part of b, and what follows the message is ignored. Errors: ErrMagic, ErrVersion
// (then Version is right), ErrMessage.
func Parse(b []byte) (m Message, err error) {
	if len(b) < 6 {
		return m, malformed("%d bytes", len(b))
	}
	o, err := orderOf(b)
	if err != nil {
		return m, err
	}
	if m.Version = o.Uint16(b[4:]); m.Version != version1 && m.Version != version2 {
		return m, fmt.Errorf("%w %#x", ErrVersion, m.Version)
	}
	if len(b) < headerLen {
		return m, malformed("%d bytes", len(b))
	}
	n, sum := o.Uint32(b[8:]), o.Uint32(b[12:])
	if n < headerLen || uint64(n) > uint64(len(b)) {
		return m, malformed("%d bytes, of which %d are there", n, len(b))
	}
	b = b[:n]
	if sum != 0 && sum != sumSigned(b) && sum != sumUnsigned(b) {
		return m, malformed("checksum %#x is wrong", sum)
	}
	m.Type, m.Credits = Type(b[6]), b[7]
	m.From, m.FromStamp = NID(o.Uint64(b[16:])), o.Uint64(b[24:])
	m.To, m.ToStamp = NID(o.Uint64(b[32:])), o.Uint64(b[40:])
	body := b[headerLen:]
	if least, ok := bodyLen[m.Type]; !ok {
		return m, malformed("unknown %v", m.Type)
	} else if len(body) < least {
		return m, malformed("%v of %d bytes", m.Type, n)
	}
	switch m.Type {
	case ConnReq, ConnAck:
		m.Params = parseParams(body, o)
	case Immediate, PutReq, GetReq:
		m.LNet = parseLNet(body)
		body = body[lnetLen:]
		if m.Type == Immediate {
			m.Payload = body
			break
		}
		m.Cookie = binary.LittleEndian.Uint64(body)
		if m.Type == GetReq {
			m.Desc, err = parseDescriptor(body[8:], o)
		}
	case PutNak, PutDone, GetDone:
		m.Cookie, m.Status = binary.LittleEndian.Uint64(body), int32(o.Uint32(body[8:]))
	case PutAck:
		m.Cookie, m.SinkCookie = binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])
		m.Desc, err = parseDescriptor(body[16:], o)
	}
	return m, err
}

func orderOf(b []byte) (byteOrder, error) {
	for _, o := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
		if o.Uint32(b) == magic {
			return o, nil
		}
	}
	return nil, fmt.Errorf("%w: it begins with % x", ErrMagic, b[:4])
}

func parseDescriptor(b []byte, o byteOrder) (Descriptor, error) {
	d, n := Descriptor{Key: o.Uint32(b)}, o.Uint32(b[4:])
	b = b[8:]
	if n == 0 || n > MaxFrags || len(b) < int(n)*fragLen {
		return d, malformed("%d pieces in a descriptor, in %d bytes", n, len(b))
	}
	d.Frags = make([]Frag, n)
	for i := range d.Frags {
		f := b[i*fragLen:]
		d.Frags[i] = Frag{Len: o.Uint32(f), Addr: o.Uint64(f[4:])}
	}
	return d, nil
}

// sumSigned and sumUnsigned are the checksum as machines compute it on which a char of C is signed, and the others: one protocol, two sums. A
// receiver takes either. The checksum's own field counts as zero.
func sumSigned(b []byte) uint32 { return sum(b, func(c byte) uint32 { return uint32(int8(c)) }) }

func sumUnsigned(b []byte) uint32 { return sum(b, func(c byte) uint32 { return uint32(c) }) }

func sum(b []byte, widen func(byte) uint32) (s uint32) {
	for i, c := range b {
		if i >= 12 && i < 16 {
			c = 0
		}
		s = (s<<1 | s>>31) + widen(c)
	}
	return max(s, 1) // 0 says that there is none
}
