package wire

import (
	"errors"
	"fmt"
)

// Kinds of errors. Functions that parse return an *Error that wraps one of these; test for them with errors.Is.
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

// Error is a violation of a rule for packets.
type Error struct {
	Kind   error  // one of the Err… values
	Detail string // the values, and the limits or the expected values
}

func (e *Error) Error() string { return "wire: " + e.Kind.Error() + ": " + e.Detail }

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

// errorf returns an *Error. It is not inlined, so that its arguments escape to the heap only after an error.
//
//go:noinline
func errorf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
