package accesslayer

import (
	"errors"

	"ciddk/ci"
)

// TooDeep tells whether a create (NewQP, NewCQ, NewSRQ, or what stands on them, as rdmacm.ID.CreateQP) failed because of how much was asked for,
// so that the same with smaller queues may succeed; of all other errors, and nil, it is false. A loop that asks for less each time ends:
//
//	for depth := 128; ; depth /= 2 {
//		qp, err := pd.NewQP(config(depth), nil)
//		if depth == 1 || !accesslayer.TooDeep(err) {
//			return qp, err
//		}
//	}
//
// The statuses (package ci, PD.CreateQP and PD.CreateCQ; IBTA volume 1, 11.2): InsufficientResources and InsufficientMemory, by which an adapter or its
// host is full now, for others may have taken what there is; InvalidMaxWRs, InvalidCQSize and InvalidSRQSize, which are limits of the adapter;
// and InvalidSetting, if the sizes that it says would be granted, Error.Most, are there. Not InvalidMaxSGE: that is about pieces.
// InvalidSetting may be about pieces or inline bytes, too: who asks for much of these looks at Most.
func TooDeep(err error) bool {
	for _, s := range [...]ci.Status{ci.InsufficientResources, ci.InsufficientMemory, ci.InvalidMaxWRs, ci.InvalidCQSize, ci.InvalidSRQSize} {
		if errors.Is(err, s) {
			return true
		}
	}
	e, ok := errors.AsType[*ci.Error](err)
	return ok && e.Status == ci.InvalidSetting && e.Most != nil
}
