package native

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
)

// HeaderSize is the size of a message's header in bytes.
const HeaderSize = 16

// replyBit is set in the command of a reply.
const replyBit = 0x8000

// Header begins every message.
type Header struct {
	Command schema.Command
	Reply   bool
	Status  ci.Status // replies
	ID      uint64
}

// Start returns b[:0] with room for a header. Finish writes it when the body is complete.
func Start(b []byte) []byte {
	return append(b[:0], make([]byte, HeaderSize)...)
}

// Finish writes the header of a complete message. The error reports a message beyond schema.MaxMessage.
func Finish(m []byte, h Header) error {
	if len(m) > schema.MaxMessage {
		return fmt.Errorf("native: message of %d bytes, limit %d", len(m), schema.MaxMessage)
	}
	c := uint16(h.Command)
	if h.Reply {
		c |= replyBit
	}
	binary.LittleEndian.PutUint32(m, uint32(len(m)))
	binary.LittleEndian.PutUint16(m[4:], c)
	binary.LittleEndian.PutUint16(m[6:], uint16(h.Status))
	binary.LittleEndian.PutUint64(m[8:], h.ID)
	return nil
}

// ParseHeader returns the header and the body of a message.
func ParseHeader(m []byte) (h Header, body []byte, err error) {
	if len(m) < HeaderSize {
		return h, nil, fmt.Errorf("native: message of %d bytes, shorter than its header", len(m))
	}
	if n := binary.LittleEndian.Uint32(m); uint64(n) != uint64(len(m)) {
		return h, nil, fmt.Errorf("native: message of %d bytes declares %d", len(m), n)
	}
	c := binary.LittleEndian.Uint16(m[4:])
	status := binary.LittleEndian.Uint16(m[6:])
	h = Header{Command: schema.Command(c &^ replyBit), Reply: c&replyBit != 0, Status: ci.Status(status),
		ID: binary.LittleEndian.Uint64(m[8:])}
	switch {
	case !h.Command.IsValid():
		return h, nil, fmt.Errorf("native: no command %d", c&^replyBit)
	case status > 0xff, !h.Reply && status != 0:
		return h, nil, fmt.Errorf("native: status %d", status)
	}
	return h, m[HeaderSize:], nil
}
