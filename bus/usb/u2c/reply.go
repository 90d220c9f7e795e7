package u2c

import (
	"errors"
	"fmt"
)

// A failure is a status of the adapter other than StatusOK.
type failure struct {
	op     Opcode
	status Status
}

func (f failure) Error() string { return fmt.Sprintf("%v: %v", f.op, f.status) }

// Unwrap returns the error that callers compare with.
func (f failure) Unwrap() error {
	switch f.status {
	case StatusNACK:
		return ErrNACK
	case StatusTimeout:
		return ErrTimeout
	}
	return ErrStatus
}

// parseReply checks an IN message, and returns its payload. A message with a failure may have any payload.
func parseReply(op Opcode, msg []byte) ([]byte, error) {
	if len(msg) == 0 {
		return nil, fmt.Errorf("%v: %w: empty", op, ErrReply)
	}
	payload := msg[:len(msg)-1]
	if s := Status(msg[len(payload)]); s != StatusOK {
		return nil, failure{op, s}
	}
	if want := formats[op].payload; want != anyLength && len(payload) != want {
		return nil, fmt.Errorf("%v: %w: %d bytes of payload, want %d", op, ErrReply, len(payload), want)
	}
	return payload, nil
}

// isFailure reports whether the adapter itself reported an error, so that its messages still match the commands.
func isFailure(err error) bool { return errors.As(err, new(failure)) }
