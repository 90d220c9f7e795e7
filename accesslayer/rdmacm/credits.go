package rdmacm

import (
	"encoding/binary"
	"fmt"
)

// credits counts the receive buffers of both ends of a Conn, so that an end sends a message only if the peer has a
// buffer for it. Every SEND has immediate data: the total number of messages that the sender can receive, modulo 2^31,
// and bit 31, which is set for a message. A SEND without that bit has no payload and only carries the number; it is
// called a grant.
//
// An end posts creditMessages more receives than it grants, for the peer's grants. It sends a grant when it has freed
// half of its buffers and no message has carried the new number. Therefore at most two grants are outstanding before
// the peer, which has used up its credits by then, has read the first.
type credits struct {
	depth uint32 // messages that this end can receive at a time

	sent    uint32 // messages sent
	limit   uint32 // messages that may be sent in total
	freed   uint32 // messages that this end can receive in total: depth, plus one for each that was read
	granted uint32 // the value of freed that the peer has
}

const (
	// creditMessages is the number of grants that may be outstanding to a peer that does not read them.
	creditMessages = 2
	// creditPlaces is the number of grants in the send queue that may be without a completion, so that late
	// acknowledgements do not delay the next one.
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

// free counts a buffer that can receive another message. It reports whether a grant is due.
func (c *credits) free() bool {
	c.freed = (c.freed + 1) & creditMask
	return c.due()
}

// due reports whether half of the buffers are free and the peer does not have the number.
func (c *credits) due() bool { return distance(c.granted, c.freed) >= int32(c.depth+1)/2 }

// grant returns the immediate data of a grant.
func (c *credits) grant() uint32 {
	c.granted = c.freed
	return c.granted
}

// receive processes the immediate data of the peer's SEND, and reports whether it is a message. SENDs that several
// goroutines post may be sent in another order, so an older number is ignored.
func (c *credits) receive(imm uint32) (isMessage bool) {
	if n := imm & creditMask; distance(c.limit, n) > 0 {
		c.limit = n
	}
	return imm&messageBit != 0
}

// distance returns b - a, of numbers modulo 2^31.
func distance(a, b uint32) int32 { return int32((b-a)<<1) >> 1 }

// hello contains the limits of an end of a Conn. It precedes the application's private data in the request and in the
// reply:
//
//	bytes 0 to 3    helloMagic
//	bytes 4 to 7    messages that the sender can receive at a time
//	bytes 8 to 11   length in bytes of the longest message that it receives
//
// Numbers are big-endian.
type hello struct{ depth, size uint32 }

const (
	helloLen   = 12
	helloMagic = 0x43446b01 // the last byte is the version
)

func (h hello) encode() []byte {
	b := binary.BigEndian.AppendUint32(nil, helloMagic)
	b = binary.BigEndian.AppendUint32(b, h.depth)
	return binary.BigEndian.AppendUint32(b, h.size)
}

// parseHello returns the hello at the beginning of private data, and the rest. ok is false if there is none: the peer
// is a program that does not use Conn.
func parseHello(private []byte) (h hello, rest []byte, ok bool, err error) {
	if len(private) < helloLen || binary.BigEndian.Uint32(private) != helloMagic {
		return hello{}, private, false, nil
	}
	h = hello{depth: binary.BigEndian.Uint32(private[4:]), size: binary.BigEndian.Uint32(private[8:])}
	if h.depth == 0 || h.depth > maxDepth || h.size == 0 || h.size > maxMessage {
		return hello{}, nil, true, fmt.Errorf("the peer receives %d messages of %d bytes, want 1 to %d of 1 to %d",
			h.depth, h.size, maxDepth, maxMessage)
	}
	return h, private[helloLen:], true, nil
}
