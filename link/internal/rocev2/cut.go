package rocev2

import (
	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// A Cutter cuts a batch of trains into wire packets: it does what segmentation offload does. It skips trains that are
// not whole or that have no route of a RoCEv2 port (an error of the engine, never of a peer), and counts their packets
// in Bad.
type Cutter struct {
	CutPos
	Trains []rvt.Packet
	Bad    int

	// The current packet, after Next has returned true.

	Route  *Route
	Packet wire.Packet // headers; the BTH is this packet's, the rest the train's
	Bytes  uint32      // of payload
	Size   int         // bytes on the wire from the BTH on
}

// A CutPos is a place in a batch: a packet of a train, and where its payload begins.
type CutPos struct {
	Train       int
	Index       uint32 // of the packet in the train
	seg, offset int    // element of the train's payload, byte in it
}

// SetPos moves the cutter to a place where it was before.
func (c *Cutter) SetPos(p CutPos) { c.CutPos, c.Route = p, nil }

// Next prepares the current packet, and returns false behind the last one. The caller moves past the packet with
// CopyPayload, or with Piece and Advance.
func (c *Cutter) Next() bool {
	for c.Train < len(c.Trains) {
		p := &c.Trains[c.Train]
		if c.Index == 0 || c.Route == nil {
			rt, ok := p.Route.(*Route)
			if !ok || !train.IsWhole(p) {
				c.Bad += int(max(p.N, 1))
				c.skip()
				continue
			}
			c.Route = rt.of(p)
			train.PutHeaders(&c.Packet, p)
		}
		if !train.PutBTH(&c.Packet.BTH, p, c.Index) {
			c.Bad += int(p.N - c.Index)
			c.skip()
			continue
		}
		c.Bytes = p.MTU
		if c.Index+1 == p.N {
			c.Bytes = p.Len - c.Index*p.MTU
		}
		c.Packet.BTH.Pad = wire.PadLen(int(c.Bytes))
		c.Size = wire.PacketLen(c.Packet.BTH.Opcode, int(c.Bytes))
		return true
	}
	return false
}

// skip goes to the next train.
func (c *Cutter) skip() { c.CutPos, c.Route = CutPos{Train: c.Train + 1}, nil }

// Of returns the train of the current packet.
func (c *Cutter) Of() *rvt.Packet { return &c.Trains[c.Train] }

// Pieces returns the most runs of bytes that the rest of the train's payload has.
func (c *Cutter) Pieces() int { return len(c.Trains[c.Train].Payload) - c.seg }

// Piece returns the next run of payload bytes, at least one and at most left of them. left counts down from Bytes;
// Advance follows.
func (c *Cutter) Piece(left int) []byte {
	p := &c.Trains[c.Train]
	for {
		b := p.Payload[c.seg][c.offset:]
		if len(b) > left {
			c.offset += left
			return b[:left]
		}
		c.seg, c.offset = c.seg+1, 0
		if len(b) > 0 {
			return b
		}
	}
}

// CopyPayload copies the payload of the current packet to dst, which has room, and goes on to the next packet.
func (c *Cutter) CopyPayload(dst []byte) {
	p := &c.Trains[c.Train]
	for left := int(c.Bytes); left > 0; {
		k := copy(dst[:left], p.Payload[c.seg][c.offset:])
		dst, left = dst[k:], left-k
		if c.offset += k; c.offset == len(p.Payload[c.seg]) {
			c.seg, c.offset = c.seg+1, 0
		}
	}
	c.Advance()
}

// Advance goes on to the next packet.
func (c *Cutter) Advance() {
	if c.Index++; c.Index == c.Trains[c.Train].N {
		c.skip()
	}
}

// AppendPacket appends the current packet, BTH to ICRC, with an IPv4 identification, and goes on to the next one.
func (c *Cutter) AppendPacket(dst []byte, id uint16) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, c.Size)...)
	b := dst[at:]
	h := c.Packet.PutHeaders(b)
	rt, n := c.Route, int(c.Bytes)
	c.CopyPayload(b[h:])
	clear(b[h+n:])
	end := len(b) - wire.ICRCLen
	rt.ICRC(len(b), id).Transport(b[:end]).Put(b[end:])
	return dst
}
