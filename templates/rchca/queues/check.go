package queues

import "ciddk/ci"

// These errors are created in advance, because the data path must not allocate, even for an error.
var (
	ErrHandle = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidQPHandle}
	ErrState  = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidQPState,
		Detail: "the QP is not in RTS or a later state"}
	ErrFull = &ci.Error{Verb: "QP.PostSend", Status: ci.InsufficientResources, Detail: "the send queue is full"}

	errType   = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidWRType, Detail: "not an operation of RC"}
	errSGE    = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidMaxSGE, Detail: "more segments than the QP has"}
	errInline = &ci.Error{Verb: "QP.PostSend", Status: ci.InvalidParameter,
		Detail: "inline data are too long, or the operation is not a SEND or WRITE"}
	errClaim = &ci.Error{Verb: "QP.PostSend", Status: ci.Unsupported,
		Detail: "the adapter does not claim the operation or flag"}
)

// CheckSend checks the form of a request, which the hardware does not check. It returns nil or the error of the post.
func CheckSend(c *ci.QPCaps, wr *ci.SendWR) *ci.Error {
	switch wr.Op {
	case ci.OpSend, ci.OpWrite, ci.OpRead, ci.OpNop:
	case ci.OpCompareSwap, ci.OpFetchAdd, ci.OpLocalInv, ci.OpFastReg, ci.OpBindMW:
		return errClaim
	default:
		return errType
	}
	switch {
	case wr.Flags&ci.SendInvalidate != 0 && wr.Op == ci.OpSend, wr.Flags&(ci.SendIPChecksum|ci.SendL4Checksum) != 0:
		return errClaim
	case len(wr.Inline) > 0 && (wr.Op != ci.OpSend && wr.Op != ci.OpWrite || len(wr.Inline) > c.MaxInline):
		return errInline
	case len(wr.Inline) == 0 && len(wr.SGL) > c.SendSGE:
		return errSGE
	}
	return nil
}
