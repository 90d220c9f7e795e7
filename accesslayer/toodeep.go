package accesslayer

import (
	"errors"

	"ciddk/ci"
)

// TooDeep reports whether a create failed because of the requested queue sizes, so that it may succeed with smaller
// ones. It applies to NewQP, NewCQ, NewSRQ, and creates that use them, such as cmid.ID.CreateQP. It returns false for
// nil and for all other errors. Therefore a loop that halves the sizes terminates:
//
//	for depth := 128; ; depth /= 2 {
//		qp, err := pd.NewQP(config(depth), nil)
//		if depth == 1 || !accesslayer.TooDeep(err) {
//			return qp, err
//		}
//	}
//
// These statuses count (package ci, PD.CreateQP and PD.CreateCQ; IBTA volume 1, 11.2). InsufficientResources and
// InsufficientMemory mean that the adapter or its host has nothing left at present. InvalidMaxWRs, InvalidCQSize and
// InvalidSRQSize are limits of the adapter. InvalidSetting counts if the error holds the sizes that would be granted,
// Error.Most. It may concern scatter/gather entries or inline bytes, too; programs that request many of these compare
// them with Most. InvalidMaxSGE does not count, since it does not concern the number of requests.
func TooDeep(err error) bool {
	for _, s := range [...]ci.Status{ci.InsufficientResources, ci.InsufficientMemory, ci.InvalidMaxWRs,
		ci.InvalidCQSize, ci.InvalidSRQSize} {
		if errors.Is(err, s) {
			return true
		}
	}
	e, ok := errors.AsType[*ci.Error](err)
	return ok && e.Status == ci.InvalidSetting && e.Most != nil
}
