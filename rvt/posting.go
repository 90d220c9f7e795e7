package rvt

import "ciddk/ci"

// postErrors are the errors of a verb that posts. They are allocated in advance, so that a rejected post allocates
// nothing.
type postErrors struct {
	destroyed, full, state, wrType, maxSGE, av, param, inline, unsupported *ci.Error
}

func newPostErrors(verb string, destroyed ci.Status) postErrors {
	e := func(s ci.Status, detail string) *ci.Error { return &ci.Error{Verb: verb, Status: s, Detail: detail} }
	return postErrors{
		destroyed: e(destroyed, ""),
		full:      e(ci.InsufficientResources, "the queue is full"),
		state:     e(ci.InvalidQPState, "sends are taken from RTS on, receives from Init on"),
		wrType:    e(ci.InvalidWRType, "the QP's service has no such request, or its receives come from an SRQ"),
		maxSGE:    e(ci.InvalidMaxSGE, "more SGEs than the queue was created for"),
		av:        e(ci.InvalidAVHandle, "To.AV is nil, destroyed, or of another PD than the QP"),
		param: e(ci.InvalidParameter, "a flag, a number or an object of the request does not go with its "+
			"operation"),
		inline:      e(ci.InvalidParameter, "inline data longer than MaxInline, or with an operation that takes none"),
		unsupported: e(ci.Unsupported, "CAAttr.Caps does not claim this operation or flag"),
	}
}

var (
	sendErrors      = newPostErrors("QP.PostSend", ci.InvalidQPHandle)
	recvErrors      = newPostErrors("QP.PostRecv", ci.InvalidQPHandle)
	srqPostErrors   = newPostErrors("SRQ.PostRecv", ci.InvalidSRQHandle)
	errSRQDestroyed = srqPostErrors.destroyed
)

func postRecv(ring RecvRing, wrs []ci.RecvWR, sge int, e *postErrors) (int, error) {
	legal := len(wrs)
	for i := range wrs {
		if len(wrs[i].SGL) > sge {
			legal = i
			break
		}
	}
	n := ring.Post(wrs[:legal])
	switch {
	case n < legal:
		return n, e.full
	case legal < len(wrs):
		return n, e.maxSGE
	}
	return n, nil
}
