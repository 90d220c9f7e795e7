package rdmacm

import (
	"encoding/binary"
	"fmt"
)

// credits count the receive buffers of both ends of a Conn, so that no message is sent for which the peer has none. Every SEND carries
// immediate data: the number of messages that the sender can take in all, modulo 2^31, and in bit 31 whether it is a message. A SEND without that bit,
// and without payload, only carries the number.
//
// An end posts creditMessages receives more than it grants, for SENDs that only carry the number. It sends one when it has freed half of
// its buffers and no message has carried the news: so at most two of them are on the way before the peer, which has used up its credits by then, has
// read the first.
type credits struct {
	depth uint32 // messages that this end takes at a time

	sent    uint32 // messages sent
	limit   uint32 // messages that may be sent
	freed   uint32 // messages that this end can take in all: depth, and one for each that the application has read
	granted uint32 // of those, what the peer was told
}

const (
	// creditMessages is how many SENDs that only carry credits may be on the way to a peer that does not read them.
	creditMessages = 2
	// creditPlaces is how many of them may be without a completion: acknowledgements that are late hold none up.
	creditPlaces = 4
)

const (
	creditMask = 1<<31 - 1
	messageBit = 1 << 31
)

func newCredits(own, peer uint32) credits {
	return credits{depth: own, limit: peer, freed: own, granted: own}
}

// canSend reports whether the peer has a buffer for another message.
func (c *credits) canSend() bool { return distance(c.sent, c.limit) > 0 }

// take counts a message to send and returns its immediate data.
func (c *credits) take() uint32 {
	c.sent = (c.sent + 1) & creditMask
	c.granted = c.freed
	return c.granted | messageBit
}

// untake undoes a take whose message was not sent.
func (c *credits) untake() { c.sent = (c.sent - 1) & creditMask }

// free counts a buffer that can take another message. It reports whether the peer should be told.
func (c *credits) free() bool {
	c.freed = (c.freed + 1) & creditMask
	return c.due()
}

// due reports whether half of the buffers are free without the peer knowing it.
func (c *credits) due() bool { return distance(c.granted, c.freed) >= int32(c.depth+1)/2 }

// grant returns the immediate data of a SEND that only carries the number.
func (c *credits) grant() uint32 {
	c.granted = c.freed
	return c.granted
}

// receive takes the immediate data of the peer's SEND, and reports whether it is a message. Posts of different goroutines may reach the
// wire in another order, so an older number is ignored.
func (c *credits) receive(imm uint32) (isMessage bool) {
	if n := imm & creditMask; distance(c.limit, n) > 0 {
		c.limit = n
	}
	return imm&messageBit != 0
}

// distance is b - a of numbers modulo 2^31.
func distance(a, b uint32) int32 { return int32((b-a)<<1) >> 1 }

// hello is what the ends of a Conn tell each other in the private data of the request and of the reply, before the application's:
//
//	byte 0:4   helloMagic
//	byte 4:4   messages that the sender can take at a time
//	byte 8:4   bytes of the longest message that it takes
//
// Numbers are big-endian.
type hello struct{ depth, size uint32 }

const (
	helloLen   = 12
	helloMagic = 0x43446b01 // the last byte is the version
)

func (h hello) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, helloMagic)
	b = binary.BigEndian.AppendUint32(b, h.depth)
	return binary.BigEndian.AppendUint32(b, h.size)
}

// parseHello returns the hello at the begin of private data, and what follows. ok is false if there is none: then the peer is a program
// that does not use Conn.
func parseHello(private []byte) (h hello, rest []byte, ok bool, err error) {
	if len(private) < helloLen || binary.BigEndian.Uint32(private) != helloMagic {
		return hello{}, private, false, nil
	}
	h = hello{depth: binary.BigEndian.Uint32(private[4:]), size: binary.BigEndian.Uint32(private[8:])}
	if h.depth == 0 || h.depth > maxDepth || h.size == 0 || h.size > maxMessage {
		return hello{}, nil, true, fmt.Errorf("the peer takes %d messages of %d bytes, want 1 to %d of 1 to %d", h.depth, h.size, maxDepth, maxMessage)
	}
	return h, private[helloLen:], true, nil
}
