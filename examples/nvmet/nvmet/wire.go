package nvmet

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
)

// Sizes in bytes.
const (
	commandLen  = 64   // submission queue entry
	responseLen = 16   // completion queue entry
	inlineLen   = 4096 // data in the capsule of an I/O command, at most
	capsuleLen  = commandLen + inlineLen
	pageLen     = 4096 // Identify data, and CAP.MPSMIN
	mdts        = 6    // log2 of the longest transfer in pages
	maxTransfer = pageLen << mdts
	connectLen  = 1024 // data of Connect
	nqnLen      = 256  // field of an NQN, with the zero byte at its end
	maxNQN      = 223
)

// Opcodes. A Fabrics command has a type besides, in place of the namespace.
const (
	opFlush, opWrite, opRead = 0x00, 0x01, 0x02

	opGetLog, opIdentify, opAbort, opSetFeatures       = 0x02, 0x06, 0x08, 0x09
	opGetFeatures, opAsyncEvent, opKeepAlive           = 0x0a, 0x0c, 0x18
	opFabrics                                          = 0x7f
	typePropertySet, typeConnect, typePropertyGet      = 0x00, 0x01, 0x04
	flagFUSE, flagPSDT                            byte = 0x03, 0xc0
)

// status is a status of a response: the type in bits 10 to 8, the code below, and whether a retry cannot succeed. It is
// an error, which ends a command and not its connection.
type status uint16

const (
	dnr status = 0x4000

	statusOK             status = 0
	invalidOpcode        status = 0x01 | dnr
	invalidField         status = 0x02 | dnr
	commandIDConflict    status = 0x03
	internalError        status = 0x06
	abortRequested       status = 0x07
	invalidNamespace     status = 0x0b | dnr
	sequenceError        status = 0x0c | dnr
	sglLengthInvalid     status = 0x0f | dnr
	sglTypeInvalid       status = 0x11 | dnr
	sglOffsetInvalid     status = 0x16 | dnr
	lbaOutOfRange        status = 0x80 | dnr
	eventLimitExceeded   status = 0x105
	invalidLogPage       status = 0x109 | dnr
	incompatibleFormat   status = 0x180 | dnr
	connectInvalid       status = 0x182 | dnr
	writeFault           status = 0x280
	unrecoveredReadError status = 0x281
)

func (s status) Error() string { return fmt.Sprintf("status %#x", uint16(s)) }

// command is a command capsule: an entry of 64 bytes, and data behind it.
type command []byte

func (c command) opcode() byte        { return c[0] }
func (c command) id() uint16          { return binary.LittleEndian.Uint16(c[2:]) }
func (c command) namespace() uint32   { return binary.LittleEndian.Uint32(c[4:]) }
func (c command) fabricsType() byte   { return c[4] }
func (c command) u16(at int) uint16   { return binary.LittleEndian.Uint16(c[at:]) }
func (c command) u64(at int) uint64   { return binary.LittleEndian.Uint64(c[at:]) }
func (c command) dword(n int) uint32  { return binary.LittleEndian.Uint32(c[4*n:]) } // CDWn
func (c command) isFabrics() bool     { return c.opcode() == opFabrics }
func (c command) descriptor() []byte  { return c[24:40] }
func (c command) descriptorType() int { return int(c[39]) }

// Types of SGL descriptors, with the subtype in the lower half.
const (
	descInline          = 0x01 // data block, offset in the capsule
	descKeyed           = 0x40 // keyed data block, address
	descKeyedInvalidate = 0x4f // the response invalidates the key
)

// keyed returns the memory of the host that a keyed descriptor describes.
func (c command) keyed() rdmacm.Region {
	d := c.descriptor()
	return rdmacm.Region{Addr: binary.LittleEndian.Uint64(d), RKey: ci.Key(binary.LittleEndian.Uint32(d[11:])),
		Length: uint64(d[8]) | uint64(d[9])<<8 | uint64(d[10])<<16}
}

// inline returns the data in the capsule.
func (c command) inline() ([]byte, error) {
	d, data := c.descriptor(), c[commandLen:]
	offset, length := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint32(d[8:])
	if offset > uint64(len(data)) {
		return nil, sglOffsetInvalid
	}
	if data = data[offset:]; uint64(length) > uint64(len(data)) {
		return nil, sglLengthInvalid
	}
	return data[:length], nil
}

// invalidates returns the key that the response invalidates.
func (c command) invalidates() (key ci.Key, ok bool) {
	return c.keyed().RKey, c.descriptorType() == descKeyedInvalidate
}

// check validates what all commands have in common.
func (c command) check() error {
	switch flags := c[1]; {
	case flags&flagFUSE != 0, !c.isFabrics() && flags&flagPSDT == 0: // fused; PRPs, which Fabrics does not have
		return invalidField
	}
	return nil
}

// response returns a response capsule. The phase tag is 0 in Fabrics.
func response(result uint64, head, id uint16, s status) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, responseLen), result)
	b = binary.LittleEndian.AppendUint16(b, head)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint16(b, id)
	return binary.LittleEndian.AppendUint16(b, uint16(s)<<1)
}

// text returns the text in a field that ends with a zero byte.
func text(field []byte) (string, bool) {
	s, _, ok := bytes.Cut(field, []byte{0})
	return string(s), ok
}

// padded writes a text to a field of ASCII, which is padded with spaces.
func padded(field []byte, s string) {
	for i := copy(field, s); i < len(field); i++ {
		field[i] = ' '
	}
}

// page is a structure of little-endian integers, which its methods write at an offset.
type page []byte

func (p page) u16(at int, v uint16) { binary.LittleEndian.PutUint16(p[at:], v) }
func (p page) u32(at int, v uint32) { binary.LittleEndian.PutUint32(p[at:], v) }
func (p page) u64(at int, v uint64) { binary.LittleEndian.PutUint64(p[at:], v) }

// Private data of RDMA CM.
const (
	acceptLen, rejectLen = 32, 4

	rejectFormat    = 0x02
	rejectQueueID   = 0x03
	rejectSendSize  = 0x04
	rejectRecvSize  = 0x05
	rejectResources = 0x06
)

// connectRequest is the private data of a request: a queue, and the sizes of the host's queue pair for it.
type connectRequest struct {
	queue              uint16
	recvSize, sendSize uint16
}

// parseRequest returns the content of private data, or the reason for which the request is rejected. The connection
// manager pads private data, so a short one is not recognized.
func parseRequest(b []byte, cfg *Config) (r connectRequest, reason uint16) {
	r.queue, r.recvSize = binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint16(b[4:])
	r.sendSize = binary.LittleEndian.Uint16(b[6:])
	switch {
	case binary.LittleEndian.Uint16(b) != 0:
		return r, rejectFormat
	case int(r.queue) > cfg.Queues:
		return r, rejectQueueID
	case r.sendSize == 0 || int(r.sendSize) >= cfg.Depth:
		return r, rejectSendSize
	case r.recvSize == 0:
		return r, rejectRecvSize
	}
	return r, 0
}

// entries returns the number of commands that the host may have outstanding. Hosts count the send queue from 0.
func (r connectRequest) entries() int { return int(r.sendSize) + 1 }

func (r connectRequest) accept() []byte {
	b := page(make([]byte, acceptLen))
	b.u16(2, uint16(r.entries()))
	return b
}

func reject(reason uint16) []byte {
	b := page(make([]byte, rejectLen))
	b.u16(2, reason)
	return b
}
