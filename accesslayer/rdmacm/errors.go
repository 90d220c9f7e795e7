package rdmacm

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
)

func invalid(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidParameter, Detail: fmt.Sprintf(format, args...)}
}

func invalidState(verb, format string, args ...any) error {
	return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: fmt.Sprintf(format, args...)}
}

// ErrEnded is the one error to test for the end of a connection: every call that fails because the connection is over returns an error
// for which errors.Is(err, ErrEnded) is true, whoever ended it and whatever the reason was. errors.Is finds the reason beside it:
//
//	ErrPeerDisconnected   the peer closed or disconnected
//	ErrDisconnected       ID.Disconnect or ID.Close was called here
//	net.ErrClosed         Close was called here
//	ErrDeviceRemoved      the HCA was removed
//	ErrPeerLost           the peer does not answer keepalive probes
//	ErrQPFailed           the queue pair failed; errors.As finds a ci.WCError if a work request of this end was the reason
//	cm.ErrTimeout, …      the connection manager found that the peer does not know the connection any more
var ErrEnded = errors.New("the connection is over")

// endError is the end of a connection with its cause.
type endError struct{ cause error }

func (e *endError) Error() string        { return ErrEnded.Error() + ": " + e.cause.Error() }
func (e *endError) Unwrap() error        { return e.cause }
func (e *endError) Is(target error) bool { return target == ErrEnded }

// ended returns cause as the end of a connection.
func ended(cause error) error {
	if errors.Is(cause, ErrEnded) {
		return cause
	}
	return &endError{cause}
}

// endCause is one of the package's causes, which are ends by themselves.
type endCause string

func (e endCause) Error() string        { return string(e) }
func (e endCause) Is(target error) bool { return target == ErrEnded }

// joinClosed ends a connection that came when its ID was closed already.
func joinClosed(c cm.Conn) error { return errors.Join(net.ErrClosed, c.Close()) }

// addrInUse is what the connection manager's refusal of a listener means.
func addrInUse(err error) error { return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err) }

// opError is how errors of steps come: as those of package net.
func opError(op string, local, remote Addr, err error) error {
	if err == nil {
		return nil
	}
	if done, ok := errors.AsType[*net.OpError](err); ok && done.Net == network(local.Space) {
		return err // by the step within
	}
	e := &net.OpError{Op: op, Net: network(local.Space), Err: explain(err)}
	if local.Addr().IsValid() || local.Port() != 0 {
		e.Source = local
	}
	if remote.Addr().IsValid() {
		e.Addr = remote
	}
	return e
}

// timeout makes an error one of net.Error's that are timeouts.
type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
func (t timeout) Unwrap() error { return t.error }

// explain adds what package net's users look for.
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
		return timeout{err}
	}
	return err
}
