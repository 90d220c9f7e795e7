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

// ErrAnyAddr is in the error of an address in use (EADDRINUSE) if it, or the one that has the port, is an unspecified
// address, which stands for others. Linux's rdma_cm reports EADDRNOTAVAIL then.
var ErrAnyAddr = errors.New("at an unspecified address")

// ErrEnded is the one error to test for the end of a connection: for every error that a call returns because the
// connection is over, errors.Is(err, ErrEnded) is true, whichever end ended it and for whatever reason. errors.Is also
// finds the reason:
//
//	ErrPeerDisconnected   the peer has closed or disconnected
//	ErrDisconnected       ID.Disconnect or ID.Close was called here
//	net.ErrClosed         Close was called here
//	ErrDeviceRemoved      the HCA was removed
//	ErrPeerLost           the peer does not reply to keepalive probes
//	ErrQPFailed           the queue pair failed; errors.As finds a ci.WCError if a work request of this end failed
//	cm.ErrTimeout, …      the peer has lost the connection, as the connection manager reports
var ErrEnded = errors.New("the connection is over")

// endError is the end of a connection with its reason.
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

// endCause is a reason that the package defines. It is an ErrEnded by itself.
type endCause string

func (e endCause) Error() string        { return string(e) }
func (e endCause) Is(target error) bool { return target == ErrEnded }

// notRC returns the error for a Conn that is not RC.
func notRC(verb string) error {
	detail := "a Conn is RC; use Manager.DialID or ListenID for UC, ListenDatagram for UD"
	return &ci.Error{Verb: verb, Status: ci.InvalidServiceType, Detail: detail}
}

// addrInUse returns the error of a listener that the connection manager has rejected.
func addrInUse(err error) error { return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err) }

// opError returns the error of a step as a *net.OpError.
func opError(op string, local, remote Addr, err error) error {
	if err == nil {
		return nil
	}
	if done, ok := errors.AsType[*net.OpError](err); ok && done.Net == network(local.Space) {
		return err // of an inner step
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

// timeout is a net.Error that is a timeout.
type timeout struct{ error }

func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
func (t timeout) Unwrap() error { return t.error }

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
		return timeout{err}
	}
	return err
}
