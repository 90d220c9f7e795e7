package nldev

import (
	"encoding/binary"
	"syscall"
)

var ne = binary.NativeEndian

// The header of a netlink message: u32 length, u16 type, u16 flags, u32 sequence number, u32 port.
const (
	headerSize = 16
	attrSize   = 4 // u16 length, u16 type
	attrMask   = 1<<14 - 1
	nested     = 1 << 15

	typeError = 2
	typeDone  = 3

	flagMulti = 2
	flagAck   = 4
	flagDump  = 0x300
)

// header is the header of a request.
type header struct {
	typ, flags    uint16
	seq, port     uint32
	length        uint32
	body, message []byte
}

// next splits the first request off a datagram. It reports false if there is none.
func next(b []byte) (h header, rest []byte, ok bool) {
	if len(b) < headerSize {
		return h, nil, false
	}
	h = header{length: ne.Uint32(b), typ: ne.Uint16(b[4:]), flags: ne.Uint16(b[6:]), seq: ne.Uint32(b[8:]),
		port: ne.Uint32(b[12:])}
	if h.length < headerSize || int64(h.length) > int64(len(b)) {
		return h, nil, false
	}
	h.message, h.body = b[:h.length], b[headerSize:h.length]
	return h, b[min(len(b), (int(h.length)+3)&^3):], true
}

// attributes returns the attributes of a request by type. Those that do not fit end the list.
func attributes(b []byte) map[uint16][]byte {
	list := map[uint16][]byte{}
	for len(b) >= attrSize {
		n, typ := int(ne.Uint16(b)), ne.Uint16(b[2:])&attrMask
		if n < attrSize || n > len(b) {
			return list
		}
		list[typ] = b[attrSize:n]
		b = b[min(len(b), (n+3)&^3):]
	}
	return list
}

// attrs are the attributes of a reply.
type attrs []byte

func (a *attrs) put(typ uint16, data []byte) {
	*a = ne.AppendUint16(*a, uint16(attrSize+len(data)))
	*a = ne.AppendUint16(*a, typ)
	*a = append(*a, data...)
	*a = append(*a, make([]byte, -len(data)&3)...)
}

func (a *attrs) u8(typ uint16, v uint8)       { a.put(typ, []byte{v}) }
func (a *attrs) u32(typ uint16, v uint32)     { a.put(typ, ne.AppendUint32(nil, v)) }
func (a *attrs) u64(typ uint16, v uint64)     { a.put(typ, ne.AppendUint64(nil, v)) }
func (a *attrs) text(typ uint16, v string)    { a.put(typ, append([]byte(v), 0)) }
func (a *attrs) nest(typ uint16, inner attrs) { a.put(typ|nested, inner) }

// reply returns a message to a request.
func (h *header) reply(typ, flags uint16, body []byte) []byte {
	b := ne.AppendUint32(nil, uint32(headerSize+len(body)))
	b = ne.AppendUint16(b, typ)
	b = ne.AppendUint16(b, flags)
	b = ne.AppendUint32(b, h.seq)
	b = ne.AppendUint32(b, h.port)
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&3)...)
}

// status returns the message with an errno, 0 for success.
func (h *header) status(e syscall.Errno) []byte {
	body := ne.AppendUint32(nil, uint32(-int32(e)))
	return h.reply(typeError, 0, append(body, h.message[:headerSize]...))
}

// done returns the message that ends a list.
func (h *header) done() []byte { return h.reply(typeDone, flagMulti, make([]byte, 4)) }
