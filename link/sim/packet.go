package sim

import (
	"slices"
	"sync"

	"ciddk/wire"
)

// packet is an IP packet on its way.
type packet struct {
	data []byte
	buf  *buffer // the storage of data, for the next packet once this one has arrived; nil: storage of its own
}

// buffer is storage for a packet of the largest path MTU.
type buffer [maxPacket]byte

// maxPacket is the most bytes of a packet that has a pooled buffer: headers, payload, pad and ICRC.
const maxPacket = wire.IPv6Len + wire.UDPLen + wire.MaxHeaderLen + 4096 + 3 + wire.ICRCLen

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// newPacket returns an empty packet with room for n bytes.
func newPacket(n int) packet {
	if n > maxPacket {
		return packet{data: make([]byte, 0, n)}
	}
	b := buffers.Get().(*buffer)
	return packet{b[:0], b}
}

// clone returns a copy.
func (p packet) clone() packet { return packet{data: slices.Clone(p.data)} }

// free returns the storage of a packet that nothing uses any more.
func (p packet) free() {
	if p.buf != nil {
		buffers.Put(p.buf)
	}
}
