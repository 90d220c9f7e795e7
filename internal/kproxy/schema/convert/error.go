package convert

import (
	"context"
	"errors"
	"syscall"

	"ciddk/accesslayer"
	"ciddk/accesslayer/cm"
	"ciddk/accesslayer/mads"
	"ciddk/ci"
	"ciddk/internal/kproxy/schema"
	"ciddk/mad"
)

// ToError returns the encoded form of the error of a step. Long texts are clipped.
func ToError(err error) schema.ServiceError {
	if err == nil {
		return schema.ServiceError{}
	}
	if e, ok := fromPeer(err); ok {
		return e
	}
	e := schema.ServiceError{Code: schema.ErrorOther, Detail: schema.ClipText(err.Error())}
	if x, ok := errors.AsType[*ci.Error](err); ok {
		e.Code, e.Status, e.Verb = schema.ErrorStatus, uint32(x.Status), schema.ClipText(x.Verb)
		e.Detail = schema.ClipText(x.Detail)
		if x.Err != nil {
			e.Detail = schema.ClipText(x.Detail + ": " + x.Err.Error())
		}
	}
	rmpp, isRMPP := errors.AsType[*mads.RMPPError](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Code = schema.ErrorCanceled
	case errors.Is(err, cm.ErrClosed), errors.Is(err, accesslayer.ErrClosed):
		e.Code = schema.ErrorClosed
	case errors.Is(err, cm.ErrTimeout):
		e.Code = schema.ErrorTimeout
	case isRMPP:
		e.Code, e.Number = schema.ErrorRMPP, uint32(rmpp.Status)
		if rmpp.Peer {
			e.Reason = 1
		}
	}
	return e
}

// fromPeer returns the encoded form of an error that a peer or the network reported.
func fromPeer(err error) (e schema.ServiceError, ok bool) {
	if x, ok := errors.AsType[*cm.RejectError](err); ok {
		return schema.ServiceError{Code: schema.ErrorReject, Reason: uint16(x.Reason), Message: uint8(x.Message),
			Info: x.Info, Private: x.Private}, true
	}
	if x, ok := errors.AsType[*cm.UnreachableError](err); ok {
		e = schema.ServiceError{Code: schema.ErrorUnreachable, GID: x.To}
		if n, ok := errors.AsType[syscall.Errno](x.Cause); ok {
			e.Number = uint32(n)
		}
		return e, true
	}
	if x, ok := errors.AsType[*cm.AlternateError](err); ok {
		return schema.ServiceError{Code: schema.ErrorAlternate, Info: Message(&x.APR)}, true
	}
	if x, ok := errors.AsType[*cm.LookupError](err); ok {
		return schema.ServiceError{Code: schema.ErrorLookup, Reason: uint16(x.Status), Info: x.Info,
			Private: x.Private}, true
	}
	return e, false
}

// Error returns the error of a step, nil for ErrorNone. errors.As and errors.Is find in it what they would find in the
// daemon: the types and variables of packages cm and mads, and the status.
func Error(e *schema.ServiceError) error {
	status := &ci.Error{Verb: e.Verb, Status: ci.Status(min(e.Status, 255)), Detail: e.Detail}
	switch e.Code {
	case schema.ErrorNone:
		return nil
	case schema.ErrorStatus:
		return status
	case schema.ErrorCanceled:
		return context.Canceled
	case schema.ErrorClosed:
		status.Status, status.Err = ci.InvalidState, Closed
		return status
	case schema.ErrorTimeout:
		return cm.ErrTimeout
	case schema.ErrorReject:
		return &cm.RejectError{Reason: mad.RejReason(e.Reason), Message: mad.CMWhich(e.Message), Info: e.Info,
			Private: e.Private}
	case schema.ErrorUnreachable:
		return &cm.UnreachableError{To: e.GID, Cause: syscall.Errno(e.Number)}
	case schema.ErrorAlternate:
		var b [mad.CMDataLen]byte
		copy(b[:], e.Info)
		a := new(cm.AlternateError)
		a.APR.Parse(b[:])
		return a
	case schema.ErrorLookup:
		return &cm.LookupError{Status: mad.SIDRStatus(e.Reason), Info: e.Info, Private: e.Private}
	case schema.ErrorRMPP:
		status.Err = &mads.RMPPError{Status: mad.RMPPStatus(e.Number), Peer: e.Reason == 1}
		return status
	}
	return errors.New(e.Detail)
}

// Closed is the error of an object that was closed. errors.Is finds cm.ErrClosed and accesslayer.ErrClosed in it.
var Closed error = closedError{}

type closedError struct{}

func (closedError) Error() string { return cm.ErrClosed.Error() }

func (closedError) Is(target error) bool {
	return target == cm.ErrClosed || target == accesslayer.ErrClosed
}
