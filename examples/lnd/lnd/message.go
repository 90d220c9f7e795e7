package lnd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// The bytes of messages. Structs whose fields are upper-case are layouts: package encoding/binary puts the fields one behind the other, without
// gaps, as a packed struct of C. Integers are little-endian, as from every sender of today; one of the other order is recognized by its magic number,
// and refused.

type msgType uint8

const (
	connReq   msgType = 0xc0 // what we want; in the private data of the connection manager's REQ
	connAck   msgType = 0xc1 // what both will have; in that of REP
	noop      msgType = 0xd0 // nothing but credits
	immediate msgType = 0xd1 // an operation of LNet, with data that fits in
	putReq    msgType = 0xd2 // source: I have something to write
	putNak    msgType = 0xd3 // sink: no
	putAck    msgType = 0xd4 // sink: write it there
	putDone   msgType = 0xd5 // source: written
	getReq    msgType = 0xd6 // sink: write it there
	getDone   msgType = 0xd7 // source: written, or there is nothing
)

// Sizes in bytes.
const (
	MaxTransfer  = 1 << 20           // of one PUT or GET
	maxImmediate = msgSize - 48 - 72 // of data that travels in a message, behind two headers
	msgSize      = 4096              // of the longest message
)

// message is one, decoded. Which fields behind the header count depends on its type: see parts.
type message struct {
	header
	params             params
	lnet               lnet
	cookie, sinkCookie cookie // the transfer, at who asked; of PUT_DONE, at the sink, which PUT_ACK tells as sinkCookie
	status             int32  // a negative errno, or 0; of GET_DONE a length
	where              where
	payload            []byte
}

type header struct { // 48 bytes
	Magic           uint32
	Version         uint16
	Type            msgType
	Credits         uint8  // given back to the receiver
	Len             uint32 // of the whole message
	Checksum        uint32 // 0: none. The adapter's CRC is better: we send none, and look at none
	From, FromStamp uint64 // NID of the sender, and when it was started: a process that was restarted is another one
	To, ToStamp     uint64
}

type cookie uint64 // means nothing to the other end, which sends it back as it came

// where is memory to write to, in pieces under one key. Fast registration makes one piece of many pages, so one is what we agree on.
type where struct {
	Key, Pieces, Len uint32
	Addr             uint64
}

// lnet is the header of LNet, the layer above: 72 bytes.
type lnet struct {
	To, From                       uint64
	ToPID, FromPID, Op, PayloadLen uint32
	Handle                         handle // of PUT, for its ACK
	Match                          uint64
	Words                          [4]uint32 // PUT: 64 bits for the application, portal, offset. GET: portal, offset, length. ACK: length
}

type handle struct {
	Stamp    uint64
	Transfer cookie
}

const (
	magic   = 0x0be91b91
	version = 0x12
	lnetAck = 0 // the application has so much of a PUT
	lnetPut = 1
	lnetGet = 2
	lnetPID = 12345
	portal  = 4         // where all of ours goes
	noStamp = 1<<64 - 1 // no ACK is wanted
)

// nid names a node of LNet: a network in the upper 32 bits (type 5: o2ib, number 0), an IPv4 address in the lower ones.
func nid(a netip.Addr) (uint64, error) {
	if a = a.Unmap(); !a.Is4() {
		return 0, fmt.Errorf("lnd: nodes have IPv4 addresses, %q is none", a)
	}
	ip := a.As4()
	return 5<<48 | uint64(binary.BigEndian.Uint32(ip[:])), nil
}

// parts are what a message of m's type is made of, in order, up to the payload: one list for encoding and decoding.
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

// append encodes m behind b. Magic number, version and length need not be set.
func (m message) append(b []byte) []byte {
	start := len(b)
	m.Magic, m.Version = magic, version
	for _, p := range append([]any{&m.header}, m.parts()...) {
		b, _ = binary.Append(b, binary.LittleEndian, p) // it cannot fail: all sizes are fixed
	}
	b = append(b, m.payload...)
	binary.LittleEndian.PutUint32(b[start+8:], uint32(len(b)-start))
	return b
}

// ErrMessage is a message that makes no sense, where it came.
var ErrMessage = errors.New("lnd: bad message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMessage, fmt.Sprintf(format, args...))
}

// parse decodes a message. The payload is part of b; what follows the message is ignored. Errors: ErrMessage.
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
