package services

import (
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/internal/kproxy/schema/convert"
)

// closedError returns the error of an object that is closed. errors.Is finds cm.ErrClosed and accesslayer.ErrClosed.
func closedError(verb string) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Err: convert.Closed}
}

// asClosed returns the error of a daemon whose service is closed, which it reports as InvalidState, in the form of
// closedError. It returns all other errors unchanged.
func asClosed(err error) error {
	e, ok := errors.AsType[*ci.Error](err)
	if !ok || e.Status != ci.InvalidState || e.Err != nil {
		return err
	}
	return &ci.Error{Verb: e.Verb, Status: e.Status, Detail: e.Detail, Err: convert.Closed}
}

func invalid(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
}

// checkLen returns InvalidParameter if data is longer than a message of the protocol carries. The daemon checks the
// exact limit.
func checkLen(verb, name string, data []byte, limit int) error {
	if len(data) > limit {
		return invalid(verb, "%s has %d bytes, the limit is %d", name, len(data), limit)
	}
	return nil
}

// Limits of the messages of the protocol, in bytes.
const (
	maxPrivate = 232
	maxInfo    = 72
	maxCompare = 216
)
