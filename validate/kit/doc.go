// Package kit is what cases are built from: an open CA, objects that are destroyed afterwards, connected pairs on either link layer,
// registered buffers, waits with a deadline, and expectations that read like the rule.
//
//	ca := kit.Open(t)                        one CA, events collected in ca.Events
//	pd := ca.PD()
//	cq := ca.CQ(pd, 16)                      cq.Wait(n), cq.WaitOK(ids…), cq.WaitStatus(id, status…), cq.Empty()
//	qp := ca.QP(pd, cq, cq, kit.Type(ci.UD)) in Reset; qp.Init(), qp.RTR(peer), qp.RTS(); qp.State(ci.QPError)
//	b := ca.Buf(pd, 4096, kit.AllAccess)     b.Bytes, b.SGE(off, n), b.Remote(off)
//	p := kit.RC(t)                           p.A, p.B: two ends with CA, PD, CQ, QP and Buf each, connected, in RTS
//	p := kit.UD(t)                           the same, and p.A.To names B as a destination
//
// Constructors fail the case with a finding marked Setup: the rule the case judges was not reached. What a case judges it does with
// the ci verbs themselves (all of these types embed the object), and expects with
//
//	kit.OK(t, err, "what was called")                          no error
//	kit.Want(t, err, "what was called", ci.InvalidCQSize)      this status, or an accepted alias of it (see Aliases)
//	kit.WantExactly                                            no alias
//	kit.WantRefused                                            Want, and no object came back
//	kit.Equal(t, "what", got, want), kit.SameBytes, kit.True
//	kit.Claim(t, ci.CapSRQ, err, "PD.CreateSRQ")               the capability bit and the answer agree
//	kit.DestroyTwice(t, obj, "CQ", ci.InvalidCQHandle)
//
// They end the case when the expectation fails, so they belong to the case's own goroutine.
package kit
