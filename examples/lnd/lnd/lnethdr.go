package lnd

import "encoding/binary"

// LNetType is the operation of the layer above, LNet, which this protocol carries.
type LNetType uint32

// Operations of LNet.
const (
	LNetAck   LNetType = 0 // of a PUT: so much was taken
	LNetPut   LNetType = 1
	LNetGet   LNetType = 2
	LNetReply LNetType = 3 // of a GET that travelled as Immediate: the data
)

// Address says what a PUT or GET is for: the receiver looks it up.
type Address struct {
	Portal uint32
	Match  uint64
	Offset uint32
}

// Handle names an operation at its initiator, for the answer.
type Handle struct{ Interface, Object uint64 }

// noHandle says that no answer is wanted.
var noHandle = Handle{^uint64(0), ^uint64(0)}

// LNetHeader is LNet's header, always in little-endian order.
type LNetHeader struct {
	To, From       NID
	ToPID, FromPID uint32
	Type           LNetType
	PayloadLen     uint32

	Handle  Handle  // Put, Get: for the answer; Ack, Reply: of the operation
	Address Address // Put, Get; of Ack only Match
	Header  uint64  // Put: 64 bits for the application
	Length  uint32  // Get: the most that is wanted; Ack: what was taken
}

// lustrePID is the process ID that everybody uses.
const lustrePID = 12345

func (h *LNetHeader) append(b []byte) []byte {
	o := binary.LittleEndian
	end := len(b) + lnetLen
	b = o.AppendUint64(b, uint64(h.To))
	b = o.AppendUint64(b, uint64(h.From))
	for _, x := range []uint32{h.ToPID, h.FromPID, uint32(h.Type), h.PayloadLen} {
		b = o.AppendUint32(b, x)
	}
	b = o.AppendUint64(b, h.Handle.Interface)
	b = o.AppendUint64(b, h.Handle.Object)
	switch h.Type {
	case LNetAck:
		b = o.AppendUint64(b, h.Address.Match)
		b = o.AppendUint32(b, h.Length)
	case LNetPut:
		b = o.AppendUint64(b, h.Address.Match)
		b = o.AppendUint64(b, h.Header)
		b = o.AppendUint32(b, h.Address.Portal)
		b = o.AppendUint32(b, h.Address.Offset)
	case LNetGet:
		b = o.AppendUint64(b, h.Address.Match)
		b = o.AppendUint32(b, h.Address.Portal)
		b = o.AppendUint32(b, h.Address.Offset)
		b = o.AppendUint32(b, h.Length)
	}
	return append(b, make([]byte, end-len(b))...)
}

func parseLNet(b []byte) (h LNetHeader) {
	o := binary.LittleEndian
	h.To, h.From = NID(o.Uint64(b)), NID(o.Uint64(b[8:]))
	h.ToPID, h.FromPID = o.Uint32(b[16:]), o.Uint32(b[20:])
	h.Type, h.PayloadLen = LNetType(o.Uint32(b[24:])), o.Uint32(b[28:])
	h.Handle = Handle{o.Uint64(b[32:]), o.Uint64(b[40:])}
	switch h.Type {
	case LNetAck:
		h.Address.Match, h.Length = o.Uint64(b[48:]), o.Uint32(b[56:])
	case LNetPut:
		h.Address.Match, h.Header = o.Uint64(b[48:]), o.Uint64(b[56:])
		h.Address.Portal, h.Address.Offset = o.Uint32(b[64:]), o.Uint32(b[68:])
	case LNetGet:
		h.Address = Address{Match: o.Uint64(b[48:]), Portal: o.Uint32(b[56:]), Offset: o.Uint32(b[60:])}
		h.Length = o.Uint32(b[64:])
	}
	return h
}
