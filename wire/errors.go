package wire

import (
	"errors"
	"fmt"
)

// What can be wrong with a packet. Decoders return an *Error that wraps one of these; test with errors.Is.
var (
	ErrShort     = errors.New("packet too short")
	ErrLength    = errors.New("length fields do not fit the packet")
	ErrVersion   = errors.New("unknown version")
	ErrOpcode    = errors.New("reserved or unsupported opcode")
	ErrPad       = errors.New("pad count exceeds the payload")
	ErrPayload   = errors.New("payload where the opcode allows none")
	ErrReserved  = errors.New("reserved field not zero")
	ErrProtocol  = errors.New("not a packet of this protocol")
	ErrChecksum  = errors.New("wrong checksum")
	ErrFragment  = errors.New("IP fragment")
	ErrLinkLayer = errors.New("not an IBA transport packet")
)

// Error says which packet rule was broken and with which values.
type Error struct {
	Kind   error // one of the Err… values
	Detail string
}

func (e *Error) Error() string { return "wire: " + e.Kind.Error() + ": " + e.Detail }

// Unwrap gives Kind.
func (e *Error) Unwrap() error { return e.Kind }

// errorf is a call of its own so that decoders stay small and their arguments reach the heap only on the way to an error.
//
//go:noinline
func errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
