package udp

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// controlRoom is the space of a control message with up to 4 bytes.
const controlRoom = 24

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

// control parses the control messages of a receive. It returns the segment size, or 0 for a single packet. It passes
// the fields of the IPv6 header to the decoder.
func (r *recvBatch) control(b []byte) (seg int) {
	if len(b) == 0 {
		return 0
	}
	ne := binary.NativeEndian
	w := strconv.IntSize / 8
	r.Class, r.HopLimit, r.Label = 0, 0, 0
	for at := unix.CmsgLen(0); len(b) >= at+4; {
		var n int
		if w == 8 {
			n = int(ne.Uint64(b))
		} else {
			n = int(ne.Uint32(b))
		}
		if n < at+4 || n > len(b) {
			break
		}
		level, typ, v := ne.Uint32(b[w:]), ne.Uint32(b[w+4:]), b[at:]
		switch {
		case level == unix.IPPROTO_UDP && typ == unix.UDP_GRO:
			seg = int(int32(ne.Uint32(v)))
		case level == unix.IPPROTO_IPV6 && typ == unix.IPV6_TCLASS:
			r.Class = uint8(ne.Uint32(v))
		case level == unix.IPPROTO_IPV6 && typ == unix.IPV6_HOPLIMIT:
			r.HopLimit = uint8(ne.Uint32(v))
		case level == unix.IPPROTO_IPV6 && typ == flowInfo6:
			r.Label = binary.BigEndian.Uint32(v) & 0xfffff
		}
		b = b[min(unix.CmsgSpace(n-at), len(b)):]
	}
	return seg
}
