// Package kit helps to write cases. It has an open CA, objects that are destroyed after the case, connected pairs on
// either link layer, registered buffers, waits with a deadline, and checks that report findings.
//
//	ca := kit.Open(t)                        // an open CA; its events are in ca.Events
//	pd := ca.PD()
//	cq := ca.CQ(pd, 16)                      // cq.Wait(n), cq.WaitOK(ids…), cq.WaitStatus(id, status…), cq.Empty()
//	qp := ca.QP(pd, cq, cq, kit.Type(ci.UD)) // in Reset; qp.Init(), qp.RTR(peer), qp.RTS(); qp.WantState(ci.QPError)
//	b := ca.Buf(pd, 4096, kit.AllAccess)     // b.Bytes, b.SGE(off, n), b.Remote(off)
//	p := kit.RC(t)                           // ends p.A and p.B, each with CA, PD, CQs, QP and Buf, connected, in RTS
//	p := kit.UD(t)                           // two datagram QPs; p.A.Dest is the other end
//
// A failure in a constructor is marked Setup, because the rule that the case proves was not reached. For what it tests,
// a case calls the verbs of ci itself, since all these types embed the object. It checks the results with these
// functions:
//
//	kit.OK(t, err, "the verb")                             // no error
//	kit.Want(t, err, "the verb", ci.InvalidCQSize)         // this status, or an alias of it (Aliases)
//	kit.WantExactly(t, err, "the verb", ci.InvalidCQSize)  // this status
//	kit.WantRefused(t, obj, err, "the verb", status)       // Want, and no object is returned
//	kit.Equal(t, "what", got, want)                        // also kit.SameBytes, kit.True
//	kit.Claim(t, ci.CapSRQ, err, "PD.CreateSRQ")           // the result fits the capability bit
//	kit.DestroyTwice(t, obj, "CQ", ci.InvalidCQHandle)     // the second Destroy fails with this status
//
// A check that fails ends the case, so only the case's own goroutine may call these functions.
package kit
