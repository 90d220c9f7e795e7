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
