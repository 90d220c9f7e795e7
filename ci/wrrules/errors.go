package wrrules

import "ciddk/ci"

// Errors are the errors of a verb that posts. They are allocated in advance, so that a rejected post allocates nothing.
type Errors struct {
	Destroyed *ci.Error // the queue does not exist any more
	Full      *ci.Error // there is no room
	State     *ci.Error // the QP is in another state

	reasons [NumReasons]*ci.Error
}

// NewErrors returns the errors of a verb. destroyed is the status of an object that does not exist.
func NewErrors(verb string, destroyed ci.Status) *Errors {
	fail := func(s ci.Status, detail string) *ci.Error { return &ci.Error{Verb: verb, Status: s, Detail: detail} }
	e := &Errors{
		Destroyed: fail(destroyed, ""),
		Full:      fail(ci.InsufficientResources, "the queue is full"),
		State:     fail(ci.InvalidQPState, "sends are taken from RTS on, receives from Init on"),
	}
	for r, detail := range [NumReasons]string{
		WRType:      "the QP's service has no such request, or its receives come from an SRQ",
		SGEs:        "more SGEs than the queue was created for",
		AV:          "To.AV is nil, destroyed, or of another PD than the QP",
		Parameter:   "a flag, a number or an object of the request does not go with its operation",
		Inline:      "inline data longer than MaxInline, or with an operation that takes none",
		Unsupported: "CAAttr.Caps does not claim this operation or flag",
	} {
		if Reason(r) != OK {
			e.reasons[r] = fail(Reason(r).Status(), detail)
		}
	}
	return e
}

// Of returns the error for a reason, and nil for OK.
func (e *Errors) Of(r Reason) *ci.Error { return e.reasons[r] }
