package wrrules

import "ciddk/ci"

// Rules are what the acceptance of requests depends on at a QP.
type Rules struct {
	Type        ci.QPType
	Atomicity   ci.Atomicity // AtomicNone: no atomics
	Caps        ci.Caps      // of the adapter as the consumer sees it
	MaxReadSGEs int          // of the adapter
	SendSGE     int          // of the QP
	MaxInline   int          // of the QP
}

// Request is a request as far as the rules depend on it.
type Request struct {
	Op       ci.SendOp
	Flags    ci.SendFlags
	SGEs     int  // scatter/gather entries; with IsInline, not counted
	Inline   int  // bytes of inline data
	IsInline bool // the request has inline data, of 0 bytes or more

	// HasAV reports whether the address vector of a datagram is valid, and of the QP's PD.
	HasAV bool
	QPN   ci.QPN // the destination of a datagram

	// HasObjects reports whether the objects of an OpFastReg or OpBindMW are valid: the region, or a window of type 2
	// and the region unless the bind has the length 0. Objects that are found when the request is executed count as
	// valid. Of an OpLSO it reports whether header and segment size are valid; of an OpFlush, whether the Flush is.
	HasObjects bool
}

// Reason is the reason why a request is rejected.
type Reason uint8

// The reasons. OK is none.
const (
	OK          Reason = iota
	WRType             // the service has no such operation
	SGEs               // too many scatter/gather entries
	AV                 // no valid address vector
	Parameter          // a flag, a number or an object does not go with the operation
	Inline             // too much inline data, or inline data for an operation that takes none
	Unsupported        // the adapter does not claim the operation or flag
	NumReasons
)

var statuses = [NumReasons]ci.Status{ci.Success, ci.InvalidWRType, ci.InvalidMaxSGE, ci.InvalidAVHandle,
	ci.InvalidParameter, ci.InvalidParameter, ci.Unsupported}

// Status returns the status of the verb that posts.
func (r Reason) Status() ci.Status {
	if r < NumReasons {
		return statuses[r]
	}
	return ci.UnknownError
}

// WCStatus returns the status with which a request completes that is rejected after it was posted, as one in a queue in
// shared memory is.
func (r Reason) WCStatus() ci.WCStatus {
	if r == OK {
		return ci.WCSuccess
	}
	return ci.WCLocalOpErr
}

// maxQPN is the greatest QP number: that of a multicast group.
const maxQPN = 0xffffff

// Check returns the reason why a request is rejected, or OK.
func (r *Rules) Check(q *Request) Reason {
	connected := r.Type == ci.RC || r.Type == ci.UC
	switch q.Op {
	case ci.OpSend:
		if reason := r.checkSend(q, connected); reason != OK {
			return reason
		}
	case ci.OpWrite:
		if !connected {
			return WRType
		}
	case ci.OpRead, ci.OpCompareSwap, ci.OpFetchAdd:
		switch {
		case r.Type != ci.RC:
			return WRType
		case q.IsInline:
			return Inline
		case q.Op != ci.OpRead && r.Atomicity == ci.AtomicNone:
			return Unsupported
		case q.Op == ci.OpRead && q.SGEs > r.MaxReadSGEs:
			return SGEs
		}
	case ci.OpAtomicWrite:
		return r.checkAtomicWrite(q)
	case ci.OpFlush:
		switch {
		case r.Type != ci.RC:
			return WRType
		case !r.Caps.Has(ci.CapFlush):
			return Unsupported
		case !q.HasObjects:
			return Parameter
		}
		return OK
	case ci.OpNop:
		return OK
	case ci.OpLSO:
		if reason := r.checkLSO(q); reason != OK {
			return reason
		}
	case ci.OpLocalInv:
		return r.checkObjects(connected, ci.CapFastReg|ci.CapMW2, true)
	case ci.OpFastReg:
		return r.checkObjects(connected, ci.CapFastReg, q.HasObjects)
	case ci.OpBindMW:
		return r.checkObjects(connected, ci.CapMW2, q.HasObjects)
	default:
		return WRType
	}
	switch {
	case q.IsInline && q.Inline > r.MaxInline:
		return Inline
	case !q.IsInline && q.SGEs > r.SendSGE:
		return SGEs
	case q.Flags&(ci.SendIPChecksum|ci.SendL4Checksum) != 0 && !r.Caps.Has(ci.CapIPChecksum):
		return Unsupported
	}
	return OK
}

// checkSend checks what only OpSend has.
func (r *Rules) checkSend(q *Request, connected bool) Reason {
	switch {
	case !connected && !q.HasAV:
		return AV
	case !connected && q.QPN > maxQPN:
		return Parameter
	case q.Flags&ci.SendInvalidate == 0:
		return OK
	case r.Type != ci.RC:
		return WRType
	case !r.Caps.Has(ci.CapSendInvalidate):
		return Unsupported
	case q.Flags&ci.SendImmediate != 0:
		return Parameter
	}
	return OK
}

// checkAtomicWrite checks an OpAtomicWrite. The length of its list is checked when it is executed.
func (r *Rules) checkAtomicWrite(q *Request) Reason {
	switch {
	case r.Type != ci.RC:
		return WRType
	case !r.Caps.Has(ci.CapAtomicWrite):
		return Unsupported
	case q.IsInline && q.Inline != ci.AtomicWriteSize:
		return Inline
	case !q.IsInline && q.SGEs > r.SendSGE:
		return SGEs
	}
	return OK
}

// checkLSO checks what only OpLSO has.
func (r *Rules) checkLSO(q *Request) Reason {
	switch {
	case r.Type != ci.UD:
		return WRType
	case !r.Caps.Has(ci.CapLSO):
		return Unsupported
	case !q.HasAV:
		return AV
	case q.QPN > maxQPN || !q.HasObjects:
		return Parameter
	case q.IsInline:
		return Inline
	}
	return OK
}

// checkObjects checks an operation on regions and windows. It needs one of the capabilities.
func (r *Rules) checkObjects(connected bool, oneOf ci.Caps, valid bool) Reason {
	switch {
	case !connected:
		return WRType
	case r.Caps&oneOf == 0:
		return Unsupported
	case !valid:
		return Parameter
	}
	return OK
}

// windowRights are the rights that a window can grant.
const windowRights = ci.RemoteRead | ci.RemoteWrite | ci.RemoteAtomic

// IsWindowAccess reports whether a window can have the rights. One of type 2 can be zero-based, too, with CapZeroBased
// (IBTA volume 1, o10-36.2.2).
func IsWindowAccess(a ci.Access) bool { return a&^windowRights == 0 }

// CanBind reports whether a window with the rights window can be bound to a region with the rights region (IBTA volume
// 1, 10.6.7.2.1). A zero-based region has no windows, as in Linux (D-105).
func CanBind(region, window ci.Access) bool {
	writes := window&(ci.RemoteWrite|ci.RemoteAtomic) != 0
	return region&(ci.BindWindow|ci.ZeroBased) == ci.BindWindow && IsWindowAccess(window&^ci.ZeroBased) &&
		(!writes || region&ci.LocalWrite != 0)
}
