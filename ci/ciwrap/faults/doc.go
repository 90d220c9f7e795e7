// Package faults makes verbs fail on demand, for tests of code that uses an HCA.
//
//	inj := faults.New(1)
//	hca := inj.Wrap(driver)
//	// The third CreateQP fails.
//	inj.Add(faults.Rule{Verb: "PD.CreateQP", Status: ci.InsufficientResources, Skip: 2, Count: 1})
//	inj.Add(faults.Rule{Verb: "QP.PostSend", Status: ci.InsufficientResources, Probability: 0.01})
//
// A verb that is made to fail does not reach the driver, so it changes nothing, as ci requires of a failed verb. Rules
// may be added and removed while verbs run; all methods may be called concurrently. The same seed, rules and order of
// calls give the same failures.
//
// For QP.PostSend, QP.PostRecv and SRQ.PostRecv, rules count work requests, not calls: the requests before the failing
// one are posted, and the verb returns their number. QP.Num, QP.TimeWait, MR.Region, MW.Key, DMA.Ranges and HCA.Info
// cannot fail and have no rules.
package faults
