package ibsim

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/fabric"
	"ciddk/mad"
)

// Lengths of messages in bytes. Fields are in the machine's byte order, unless noted.
const (
	controlLen = 80
	dataLen    = 288
)

// Types of control messages.
const (
	typeError       = 0
	typeConnect     = 1
	typeDisconnect  = 2
	typeGetPort     = 3
	typeGetVendor   = 4
	typeGetGID      = 5
	typeGetGUID     = 6
	typeGetNodeInfo = 7
	typeGetPortInfo = 8
	typeSetSM       = 9
	typeGetPKeys    = 10
)

const magic = 0xdeadbeef

// control is a control message: 4 numbers of 32 bits, and data.
type control struct {
	client, typ, length uint32
	data                [controlLen - 16]byte
}

// parseControl parses a message. It reports whether it is one.
func parseControl(b []byte) (c control, ok bool) {
	ne := binary.NativeEndian
	if len(b) != controlLen || ne.Uint32(b) != magic {
		return c, false
	}
	c.client, c.typ, c.length = ne.Uint32(b[4:]), ne.Uint32(b[8:]), ne.Uint32(b[12:])
	copy(c.data[:], b[16:])
	return c, true
}

func (c *control) put(b *[controlLen]byte) {
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], magic)
	ne.PutUint32(b[4:], c.client)
	ne.PutUint32(b[8:], c.typ)
	ne.PutUint32(b[12:], c.length)
	copy(b[16:], c.data[:])
}

// Offsets in the data of CONNECT: the client's process, its QP, whether it is a subnet manager, and the node.
const (
	offProcess  = 0
	offManager  = 8
	offNode     = 12
	nodeNameLen = 32
)

// message is a data message: a management datagram with addresses, in network byte order.
type message struct {
	dlid, slid uint16
	dqp, sqp   uint32
	status     uint32
	length     int // bytes of the datagram that are valid; 0: all
	mad        ci.MAD
}

// statusTimeout is the status of a request that got no response: the value of ETIMEDOUT.
const statusTimeout = 110

// parseMessage parses a message. It reports whether it is one that may be sent: of base version 1, and with a route
// that has not begun, if it is a directed one.
func parseMessage(b []byte) (m message, ok bool) {
	if len(b) != dataLen {
		return m, false
	}
	be := binary.BigEndian
	m.dlid, m.slid = be.Uint16(b[0:]), be.Uint16(b[4:])
	m.dqp, m.sqp = be.Uint32(b[8:])&0xffffff, be.Uint32(b[12:])&0xffffff
	m.status = be.Uint32(b[16:])
	m.mad = ci.MAD(b[32:])
	m.length = mad.Size
	if n := be.Uint64(b[24:]); n < mad.Size {
		if n < mad.HeaderLen {
			return m, false
		}
		clear(m.mad[n:]) // the client's buffer has bytes of older messages there
		m.length = int(n)
	}
	return m, m.mad[0] == mad.BaseVersion
}

func (m *message) put(b *[dataLen]byte) {
	be := binary.BigEndian
	*b = [dataLen]byte{}
	be.PutUint16(b[0:], m.dlid)
	be.PutUint16(b[4:], m.slid)
	be.PutUint32(b[8:], m.dqp)
	be.PutUint32(b[12:], m.sqp)
	be.PutUint32(b[16:], m.status)
	length := m.length
	if length == 0 {
		length = mad.Size
	}
	be.PutUint64(b[24:], uint64(length))
	copy(b[32:], m.mad[:])
}

// datagram returns the message as a datagram of the fabric. It shares the datagram's bytes.
func (m *message) datagram() fabric.Datagram {
	d := fabric.Datagram{SLID: ci.LID(m.slid), DLID: ci.LID(m.dlid), SrcQP: ci.QPN(m.sqp), DestQP: ci.QPN(m.dqp),
		MAD: &m.mad}
	if m.dqp != 0 {
		d.QKey, d.PKey = ci.QKey(mad.QKeyGSI), 0xffff
	}
	return d
}

// fromDatagram returns a datagram of the fabric as a message.
func fromDatagram(d *fabric.Datagram) message {
	return message{dlid: uint16(d.DLID), slid: uint16(d.SLID), dqp: uint32(d.DestQP), sqp: uint32(d.SrcQP), mad: *d.MAD}
}

// Transaction IDs: the upper 16 bits hold the mark of a client.
const (
	offTID       = 8
	offMethod    = 3
	offMADStatus = 4
	offAttribute = 16

	markBase = 0x5100 // marks are markBase plus the number of the client
)

func tid(m *ci.MAD) uint64 { return binary.BigEndian.Uint64(m[offTID:]) }

func setMark(m *ci.MAD, mark uint16) { binary.BigEndian.PutUint16(m[offTID:], mark) }

func markOf(m *ci.MAD) uint16 { return binary.BigEndian.Uint16(m[offTID:]) }

// isResponse reports whether a datagram answers another one: the R bit, or a TrapRepress.
func isResponse(m *ci.MAD) bool {
	return m[offMethod]&uint8(mad.ResponseMask) != 0 || mad.Method(m[offMethod]) == mad.TrapRepress
}

// hasResponse reports whether a client waits for the response to a datagram. That to a trap is a TrapRepress: OpenSM
// counts its own traps as outstanding until it comes or the datagram returns with a status.
func hasResponse(m *ci.MAD) bool {
	switch mad.Method(m[offMethod]) {
	case mad.Send, mad.TrapRepress:
		return false
	}
	return !isResponse(m)
}
