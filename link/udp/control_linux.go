package udp

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// controlRoom is the space of a control message with up to 4 bytes.
const controlRoom = 24

// The types of control messages that Linux and Darwin number differently.
const (
	shownTOS    = unix.IP_TOS
	shownTTL    = unix.IP_TTL
	segmentType = unix.UDP_GRO
)

// infoRoom is the space of a control message with a source address, IPV6_PKTINFO being the longer one.
const infoRoom = 40

// putControl32 writes a control message with one int and returns its space.
func putControl32(b []byte, level, typ int, v uint32) int {
	binary.NativeEndian.PutUint32(b[unix.CmsgLen(0):], v)
	return putControl(b, level, typ, 4)
}

// putControl16 writes a control message with 16 bits and returns its space.
func putControl16(b []byte, level, typ int, v uint16) int {
	binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], v)
	return putControl(b, level, typ, 2)
}

// putControl writes the header of a control message with n bytes of data: its length, a word that includes the header;
// its level; its type. It returns the space that the message takes.
func putControl(b []byte, level, typ, n int) int {
	ne := binary.NativeEndian
	w := strconv.IntSize / 8
	if w == 8 {
		ne.PutUint64(b, uint64(unix.CmsgLen(n)))
	} else {
		ne.PutUint32(b, uint32(unix.CmsgLen(n)))
	}
	ne.PutUint32(b[w:], uint32(level))
	ne.PutUint32(b[w+4:], uint32(typ))
	return unix.CmsgSpace(n)
}
