// Package failure has the errors of accesslayer/rdmacm and the packages below it.
package failure

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

// Invalid returns an error with status InvalidParameter.
func Invalid(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
}

// InvalidState returns an error with status InvalidState.
func InvalidState(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: fmt.Sprintf(format, args...)}
}

// UnlessGone returns nil for the error of an object that the access layer has destroyed with its HCA.
func UnlessGone(err error) error {
	if errors.Is(err, accesslayer.ErrClosed) {
		return nil
	}
	return err
}

// ErrEnded is in every error of a call because a connection is over.
var ErrEnded = errors.New("the connection is over")

// endError is the end of a connection with its reason.
type endError struct{ cause error }

func (e *endError) Error() string        { return ErrEnded.Error() + ": " + e.cause.Error() }
func (e *endError) Unwrap() error        { return e.cause }
func (e *endError) Is(target error) bool { return target == ErrEnded }

// Ended returns cause as the end of a connection.
func Ended(cause error) error {
	if errors.Is(cause, ErrEnded) {
		return cause
	}
	return &endError{cause}
}

// EndCause is a reason that package cmid defines. It is an ErrEnded by itself.
type EndCause string

func (e EndCause) Error() string        { return string(e) }
func (e EndCause) Is(target error) bool { return target == ErrEnded }

// endpoint is a cmid.Addr.
type endpoint interface {
	net.Addr
	Addr() netip.Addr
	Port() uint16
}

// Op returns the error of a step as a *net.OpError.
func Op(op string, local, remote endpoint, err error) error {
	if err == nil {
		return nil
	}
	if done, ok := errors.AsType[*net.OpError](err); ok && done.Net == local.Network() {
		return err // of an inner step
	}
	e := &net.OpError{Op: op, Net: local.Network(), Err: explain(err)}
	if local.Addr().IsValid() || local.Port() != 0 {
		e.Source = local
	}
	if remote.Addr().IsValid() {
		e.Addr = remote
	}
	return e
}

// Timeout is a net.Error that is a timeout.
type Timeout struct{ Err error }

func (Timeout) Timeout() bool   { return true }
func (Timeout) Temporary() bool { return true }
func (t Timeout) Unwrap() error { return t.Err }

func (t Timeout) Error() string { return t.Err.Error() }

// explain adds the errors for which users of package net test.
func explain(err error) error {
	if r, ok := errors.AsType[*cm.RejectError](err); ok {
		switch r.Reason {
		case mad.RejInvalidServiceID, mad.RejConsumer, mad.RejPrimaryGID:
			return fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
		}
		return err
	}
	if _, ok := errors.AsType[*cm.LookupError](err); ok {
		return fmt.Errorf("%w: %w", syscall.ECONNREFUSED, err)
	}
	if errors.Is(err, cm.ErrTimeout) {
		return Timeout{err}
	}
	return err
}
