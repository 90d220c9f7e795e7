// Package model is a reference model of the Channel Interface: what each verb, each message and each loss may do to the
// objects of one or two adapters. It knows no driver. It imports package ci for the names of its values and nothing
// else.
//
// The model observes. The explorer (package model/explore) calls a verb of a driver, and then the method of the model
// with the same arguments and the driver's result. The method returns a *Violation if the result is not permitted.
// Otherwise it changes the model's state in the same way and lets the queues work until nothing moves any more:
//
//	n, err := driver.PostSend(wrs)
//	if v := qp.PostSend(wrs, n, err); v != nil { … v.Rule, v.Expected, v.Got … }
//
// After that, the model holds what the driver must show once it is at rest: completions in CQs, events, bytes in
// memory, attributes. What the sources leave open is in the model as a set (statuses of a completion), as an option
// (events that may be raised), as bytes of unknown value, or as a QP whose future is not predicted (QP.Loose).
//
// Rules name requirements by the ids of docs/sas. Numbers that a driver chooses (keys, QP numbers, sizes granted) are
// arguments of the model, which checks what they must satisfy.
//
// A World is not safe for concurrent use.
package model
