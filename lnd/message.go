package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Structs with exported fields are layouts of messages: package encoding/binary encodes the fields in order, without
// padding, as in a packed struct in C. Integers are in the byte order of the sender, which the magic number shows. The
// headers of LNet and cookies are exceptions: they are little-endian here, since LNet prescribes it for its headers,
// and a cookie returns unchanged to the end that made it.

type msgType uint8

const (
	connReq   msgType = 0xc0 // the parameters that the active end requests, in the private data of REQ
	connAck   msgType = 0xc1 // the parameters of the connection, in the private data of REP
	noop      msgType = 0xd0 // returns credits only
	immediate msgType = 0xd1 // an operation of LNet with its data
	putReq    msgType = 0xd2 // from the source: it has data to write
	putNak    msgType = 0xd3 // from the sink: it has no memory for them
	putAck    msgType = 0xd4 // from the sink: where to write them
	putDone   msgType = 0xd5 // from the source: written
	getReq    msgType = 0xd6 // from the sink: where to write the data
	getDone   msgType = 0xd7 // from the source: written, or there are no data
)

// layouts has the name and the parts of every type of message, in order. The payload of an IMMEDIATE follows them.
var layouts = map[msgType]struct {
	name  string
	parts func(*message) []any
}{
	connReq:   {"CONNREQ", func(m *message) []any { return []any{&m.params} }},
	connAck:   {"CONNACK", func(m *message) []any { return []any{&m.params} }},
	noop:      {"NOOP", func(*message) []any { return nil }},
	immediate: {"IMMEDIATE", func(m *message) []any { return []any{&m.lnet} }},
	putReq:    {"PUT_REQ", func(m *message) []any { return []any{&m.lnet, &m.cookie} }},
	putNak:    {"PUT_NAK", func(m *message) []any { return []any{&m.cookie, &m.status} }},
	putAck:    {"PUT_ACK", func(m *message) []any { return []any{&m.cookie, &m.sinkCookie, &m.where} }},
	putDone:   {"PUT_DONE", func(m *message) []any { return []any{&m.cookie, &m.status} }},
	getReq:    {"GET_REQ", func(m *message) []any { return []any{&m.lnet, &m.cookie, &m.where} }},
	getDone:   {"GET_DONE", func(m *message) []any { return []any{&m.cookie, &m.status} }},
}

func (t msgType) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("type %#x", uint8(t))
}

// Sizes in bytes.
const (
	MaxTransfer  = 1 << 20 // of one PUT or GET
	msgSize      = 4096    // of the longest message
	headerSize   = 48
	lnetSize     = 72
	maxImmediate = msgSize - headerSize - lnetSize // bytes of data in a message
	maxFrags     = 257                             // pieces of memory in a message: pages of MaxTransfer, not aligned
)

// A message is a decoded message. Its type determines which fields after the header are valid: see layouts.
type message struct {
	header
	params params
	lnet   lnetHeader
	cookie,
	sinkCookie cookie // the transfer at the end that began it; in PUT_DONE the one at the sink, sinkCookie of PUT_ACK
	status  int32 // a negative errno or 0; in GET_DONE a length
	where   where
	payload []byte
}

type header struct {
	Magic     uint32
	Version   uint16
	Type      msgType
	Credits   uint8  // returned to the receiver
	Len       uint32 // of the whole message
	Checksum  uint32 // 0: none
	From      NID
	FromStamp uint64 // the start time of the sender, which distinguishes a restarted process
	To        NID
	ToStamp   uint64
}

type cookie uint64 // opaque to the other end, which returns it unchanged

// where describes memory to write to, in pieces with one key.
type where struct {
	key   uint32
	frags []frag
}

type frag struct {
	Len  uint32
	Addr uint64
}

// length returns the number of bytes of all pieces.
func (w *where) length() (n uint64) {
	for _, f := range w.frags {
		n += uint64(f.Len)
	}
	return n
}

const (
	magic    = 0x0be91b91
	version1 = 0x11 // NOOPs need a credit, and the depth is 8
	version2 = 0x12
)

// A format is how an end encodes messages.
type format struct {
	order    binary.AppendByteOrder
	version  uint16
	checksum bool
}

// orderOf returns the byte order in which v is encoded at the beginning of b, or nil.
func orderOf(b []byte, v uint32) binary.ByteOrder {
	switch {
	case len(b) < 4:
	case binary.LittleEndian.Uint32(b) == v:
		return binary.LittleEndian
	case binary.BigEndian.Uint32(b) == v:
		return binary.BigEndian
	}
	return nil
}

// append appends the encoded message to b. It sets the magic number, the version, the length and the checksum.
func (m message) append(b []byte, f format) []byte {
	start := len(b)
	m.Magic, m.Version, m.Checksum = magic, f.version, 0
	order, _ := f.order.(binary.ByteOrder)
	b, _ = binary.Append(b, order, &m.header) // no error here and below: all sizes are fixed
	for _, p := range layouts[m.Type].parts(&m) {
		switch p := p.(type) {
		case *where:
			b = f.order.AppendUint32(f.order.AppendUint32(b, p.key), uint32(len(p.frags)))
			b, _ = binary.Append(b, order, p.frags)
		case *lnetHeader, *cookie:
			b, _ = binary.Append(b, binary.LittleEndian, p)
		default:
			b, _ = binary.Append(b, order, p)
		}
	}
	b = append(b, m.payload...)
	order.PutUint32(b[start+8:], uint32(len(b)-start))
	if f.checksum {
		sum, _ := checksums(b[start:])
		order.PutUint32(b[start+12:], sum)
	}
	return b
}

// checksums returns the checksums of a message, whose field for it counts as 0. A byte is a char of C, which is signed
// on some machines and unsigned on others.
func checksums(b []byte) (signed, unsigned uint32) {
	for i, c := range b {
		if i >= 12 && i < 16 {
			c = 0
		}
		signed = (signed<<1 | signed>>31) + uint32(int32(int8(c)))
		unsigned = (unsigned<<1 | unsigned>>31) + uint32(c)
	}
	return max(signed, 1), max(unsigned, 1)
}

// ErrMessage reports a message that is invalid, or not allowed in the state of the connection.
var ErrMessage = errors.New("lnd: invalid message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMessage, fmt.Errorf(format, args...))
}

// parse decodes a message. The payload is a subslice of b; bytes after the message are ignored. Errors: ErrMessage. The
// fields that could be decoded are valid then, so that a rejection can have the version of the peer.
func parse(b []byte) (m message, err error) {
	order := orderOf(b, magic)
	if order == nil {
		return m, malformed("%d bytes, which do not begin with the magic number %#x", len(b), magic)
	}
	n, err := binary.Decode(b, order, &m.header)
	layout, known := layouts[m.Type]
	switch {
	case err != nil || uint64(m.Len) > uint64(len(b)) || m.Len < uint32(n):
		return m, malformed("%d bytes came, the header says %d", len(b), m.Len)
	case m.Version != version1 && m.Version != version2:
		return m, malformed("version %#x, want %#x or %#x", m.Version, version1, version2)
	case !known:
		return m, malformed("unknown type %#x", uint8(m.Type))
	}
	if b = b[:m.Len]; m.Checksum != 0 {
		if signed, unsigned := checksums(b); m.Checksum != signed && m.Checksum != unsigned {
			return m, malformed("%v with checksum %#x, computed %#x or %#x", m.Type, m.Checksum, signed, unsigned)
		}
	}
	b = b[n:]
	for _, p := range layout.parts(&m) {
		switch p := p.(type) {
		case *where:
			n, err = p.decode(b, order)
		case *lnetHeader, *cookie:
			n, err = binary.Decode(b, binary.LittleEndian, p)
		default:
			n, err = binary.Decode(b, order, p)
		}
		if err != nil {
			return m, malformed("%v with %d bytes: %w", m.Type, m.Len, err)
		}
		b = b[n:]
	}
	if m.Type == immediate {
		m.payload = b
	}
	return m, nil
}

// decode decodes the description of memory at the beginning of b, and returns its length.
func (w *where) decode(b []byte, order binary.ByteOrder) (int, error) {
	const fixed, each = 8, 12
	if len(b) < fixed {
		return 0, errors.New("no description of memory")
	}
	n := order.Uint32(b[4:])
	w.key = order.Uint32(b)
	if n == 0 || n > maxFrags || len(b) < fixed+int(n)*each {
		return 0, fmt.Errorf("memory in %d pieces, of which there is room for %d", n, (len(b)-fixed)/each)
	}
	w.frags = make([]frag, n)
	return binary.Decode(b[fixed:], order, w.frags)
}
