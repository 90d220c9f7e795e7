// Package wrrules holds the rules by which a request is accepted to a send queue (IBTA volume 1, 11.4.1.1 and table
// 96). A driver applies them when a consumer posts, its user library applies them in the process of an application, and
// the driver applies them again to what it reads from a queue in shared memory. One set of rules ensures that a request
// is rejected for the same reason on every way.
//
//	rules := wrrules.Rules{Type: ci.RC, Caps: attr.Caps, SendSGE: 4, MaxInline: 64}
//	if reason := rules.Check(&wrrules.Request{Op: wr.Op, Flags: wr.Flags, SGEs: len(wr.SGL)}); reason != wrrules.OK {
//		return reason.Status()
//	}
//
// The rules depend on the request and on the QP, and not on the state of the QP or the room in its queue. The caller
// resolves the objects that a request names and reports in the Request whether they are valid.
//
// The functions do not allocate, have no state and may be called concurrently.
package wrrules
