package schema

import (
	"encoding/binary"
	"fmt"
)

// ServeCopies requests a socket by which the client copies for the daemon. The reply has its descriptor. The daemon
// then uses it for registered memory that it cannot or must not reach itself. The client reads one Copy from each
// message, and writes one CopyReply for it. It is requested at most once in a connection.
type ServeCopies struct {
	Reserved uint64
}

// Sizes of the messages of a socket of ServeCopies.
const (
	MaxCopy       = 64 << 10 // bytes of a copy
	CopySize      = 32       // bytes of an encoded Copy
	CopyReplySize = 16       // bytes of an encoded CopyReply
)

// CopyKind is the direction of a Copy.
type CopyKind uint32

// The kinds of copies.
const (
	CopyRead  CopyKind = 1 + iota // from the client's memory: the data follow the reply
	CopyWrite                     // to the client's memory: the data follow the request
)

// Copy is a message of the daemon: a copy of registered memory.
type Copy struct {
	ID     uint64 // of the reply
	Token  uint64 // Memory.FileOffset of the registration
	Addr   uint64 // the client's
	Length uint32
	Kind   CopyKind
}

// Append appends the encoded message without data. The layout is that of the structure, little-endian.
func (c *Copy) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, c.ID)
	b = binary.LittleEndian.AppendUint64(b, c.Token)
	b = binary.LittleEndian.AppendUint64(b, c.Addr)
	b = binary.LittleEndian.AppendUint32(b, c.Length)
	return binary.LittleEndian.AppendUint32(b, uint32(c.Kind))
}

// ParseCopy returns the message in b and the data that follow it.
func ParseCopy(b []byte) (c Copy, data []byte, err error) {
	if len(b) < CopySize {
		return Copy{}, nil, fmt.Errorf("schema: copy of %d bytes, want at least %d", len(b), CopySize)
	}
	c = Copy{
		ID:     binary.LittleEndian.Uint64(b),
		Token:  binary.LittleEndian.Uint64(b[8:]),
		Addr:   binary.LittleEndian.Uint64(b[16:]),
		Length: binary.LittleEndian.Uint32(b[24:]),
		Kind:   CopyKind(binary.LittleEndian.Uint32(b[28:])),
	}
	data = b[CopySize:]
	want := 0
	switch c.Kind {
	case CopyRead:
	case CopyWrite:
		want = int(min(c.Length, MaxCopy))
	default:
		return Copy{}, nil, fmt.Errorf("schema: copy of kind %d, which does not exist", c.Kind)
	}
	if c.Length > MaxCopy || len(data) != want {
		return Copy{}, nil, fmt.Errorf("schema: copy of %d bytes with %d bytes of data (at most %d)", c.Length,
			len(data), MaxCopy)
	}
	return c, data, nil
}

// CopyReply is the client's reply to a Copy.
type CopyReply struct {
	ID       uint64
	Failed   bool // the memory is not registered, or not accessible
	Reserved [7]uint8
}

// Append appends the encoded message without data. The layout is that of the structure, little-endian.
func (r *CopyReply) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.ID)
	var failed uint64
	if r.Failed {
		failed = 1
	}
	return binary.LittleEndian.AppendUint64(b, failed)
}

// ParseCopyReply returns the message in b and the data that follow it.
func ParseCopyReply(b []byte) (r CopyReply, data []byte, err error) {
	if len(b) < CopyReplySize || len(b) > CopyReplySize+MaxCopy {
		return CopyReply{}, nil, fmt.Errorf("schema: reply to a copy of %d bytes, want %d to %d", len(b), CopyReplySize,
			CopyReplySize+MaxCopy)
	}
	failed := binary.LittleEndian.Uint64(b[8:])
	if failed > 1 {
		return CopyReply{}, nil, fmt.Errorf("schema: reply to a copy with status %d, want 0 or 1", failed)
	}
	return CopyReply{ID: binary.LittleEndian.Uint64(b), Failed: failed == 1}, b[CopyReplySize:], nil
}
