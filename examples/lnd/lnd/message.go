package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Structs with exported fields are layouts of messages: package encoding/binary encodes the fields in order, without
// padding, as in a packed struct in C. Integers are little-endian. The magic number shows messages in the other byte
// order, which are rejected.

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

// Sizes in bytes.
const (
	MaxTransfer  = 1 << 20           // of one PUT or GET
	maxImmediate = msgSize - 48 - 72 // bytes of data in a message, after two headers
	msgSize      = 4096              // of the longest message
)

// A message is a decoded message. Its type determines which fields after the header are valid: see parts.
type message struct {
	header
	params params
	lnet   lnet
	cookie,
	sinkCookie cookie // the transfer at the end that began it; in PUT_DONE the one at the sink, sinkCookie of PUT_ACK
	status  int32 // a negative errno or 0; in GET_DONE a length
	where   where
	payload []byte
}

type header struct { // 48 bytes
	Magic           uint32
	Version         uint16
	Type            msgType
	Credits         uint8  // returned to the receiver
	Len             uint32 // of the whole message
	Checksum        uint32 // 0: none. It is neither sent nor checked, because the adapter's CRC is stronger
	From, FromStamp uint64 // NID of the sender and its start time, which distinguishes a restarted process
	To, ToStamp     uint64
}

type cookie uint64 // opaque to the other end, which returns it unchanged

// where describes memory to write to, in pieces with one key. Fast registration makes one piece of many pages, so the
// ends agree on one piece.
type where struct {
	Key, Pieces, Len uint32
	Addr             uint64
}

// lnet is the header of LNet, the layer above. It has 72 bytes.
type lnet struct {
	To, From                       uint64
	ToPID, FromPID, Op, PayloadLen uint32
	Handle                         handle // of a PUT, for its ACK
	Match                          uint64
	// PUT: 64 bits for the application, portal, offset. GET: portal, offset, length. ACK: length
	Words [4]uint32
}

type handle struct {
	Stamp    uint64
	Transfer cookie
}

const (
	magic   = 0x0be91b91
	version = 0x12
	lnetAck = 0 // the number of bytes of a PUT that the application has
	lnetPut = 1
	lnetGet = 2
	lnetPID = 12345
	portal  = 4         // of all transfers of this package
	noStamp = 1<<64 - 1 // no ACK is requested
)

// nid returns the NID of a node: the network in the upper 32 bits (type 5, o2ib; number 0), the IPv4 address in the
// lower 32.
func nid(a netip.Addr) (uint64, error) {
	if a = a.Unmap(); !a.Is4() {
		return 0, fmt.Errorf("lnd: the address of a node is %q, want an IPv4 address", a)
	}
	ip := a.As4()
	return 5<<48 | uint64(binary.BigEndian.Uint32(ip[:])), nil
}

// parts returns the parts of a message of m's type before the payload, in order, for encoding and decoding.
func (m *message) parts() []any {
	switch m.Type {
	case connReq, connAck:
		return []any{&m.params}
	case noop:
		return []any{}
	case immediate:
		return []any{&m.lnet}
	case putReq:
		return []any{&m.lnet, &m.cookie}
	case putNak, putDone, getDone:
		return []any{&m.cookie, &m.status}
	case putAck:
		return []any{&m.cookie, &m.sinkCookie, &m.where}
	case getReq:
		return []any{&m.lnet, &m.cookie, &m.where}
	}
	return nil // unknown
}

// append appends the encoded message to b. It sets the magic number, the version and the length.
func (m message) append(b []byte) []byte {
	start := len(b)
	m.Magic, m.Version = magic, version
	for _, p := range append([]any{&m.header}, m.parts()...) {
		b, _ = binary.Append(b, binary.LittleEndian, p) // no error: all sizes are fixed
	}
	b = append(b, m.payload...)
	binary.LittleEndian.PutUint32(b[start+8:], uint32(len(b)-start))
	return b
}

// ErrMessage reports a message that is invalid, or not allowed in the state of the connection.
var ErrMessage = errors.New("lnd: invalid message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMessage, fmt.Sprintf(format, args...))
}

// parse decodes a message. The payload is a subslice of b; bytes after the message are ignored. Errors: ErrMessage.
func parse(b []byte) (m message, err error) {
	n, err := binary.Decode(b, binary.LittleEndian, &m.header)
	switch {
	case err != nil || uint64(m.Len) > uint64(len(b)) || m.Len < uint32(n):
		return m, malformed("%d bytes came, the header says %d", len(b), m.Len)
	case m.Magic != magic || m.Version != version:
		return m, malformed("magic number %#x and version %#x, not %#x and %#x", m.Magic, m.Version, magic, version)
	case m.parts() == nil:
		return m, malformed("unknown type %#x", m.Type)
	}
	b = b[n:m.Len]
	for _, p := range m.parts() {
		if n, err = binary.Decode(b, binary.LittleEndian, p); err != nil {
			return m, malformed("type %#x with %d bytes", m.Type, m.Len)
		}
		b = b[n:]
	}
	if (m.Type == putAck || m.Type == getReq) && m.where.Pieces != 1 {
		return m, malformed("type %#x with memory in %d pieces, we agreed on one", m.Type, m.where.Pieces)
	}
	if m.Type == immediate {
		m.payload = b
	}
	return m, nil
}
