// Package ciwrap wraps an HCA: with a fault injector, a tracer, or a wrong driver for tests of a certifier. A wrapper
// has methods only for the verbs that it changes; embedding supplies the others.
//
//	type lossy struct {
//		ciwrap.QP // all verbs of the inner QP, and Unwrap
//		n         int
//	}
//
//	func (q *lossy) PostSend(wrs []ci.SendWR) (int, error) { … q.QP.PostSend(wrs) … }
//
//	hca = ciwrap.Wrap(hca, ciwrap.Layer{
//		QP: func(in ci.QP, c ci.QPCreate) ci.QP { return &lossy{QP: ciwrap.QP{QP: in}} },
//	})
//
// A Layer holds a function for each kind of object, and hooks for the attributes with which objects are created. Only
// the parents of replaced objects get a wrapper. An object whose function is nil is the driver's own (a QP if Mcast is
// nil, a CQ, an MR, …), so its data path costs nothing. Layers stack: in Wrap(Wrap(hca, a), b), b is in front of a.
//
// # Several interface values of one object
//
// Wrapping gives one object several interface values; use ci.Same to compare them. Objects that go down as arguments (a
// CQ in a QPCreate, an AV in a SendWR) are passed as the consumer holds them, and drivers recover their own with ci.As.
// Objects that a Query returns are those that the driver was given, except that the parent PD is the driver's own:
// compare it with ci.Same, and do not create objects below it.
//
// # Order
//
// From the driver up, there are the driver's object, ciwrap's own wrapper, which passes children to the Layer, and the
// Layer's replacement. Therefore a PD replacement that overrides CreateQP receives QPs that the Layer's QP function has
// already replaced, and can reject a create before a QP exists.
//
// # Failures
//
// The results of a verb that failed are passed up unchanged, and so is a nil object: a wrapper neither hides nor adds a
// defect.
package ciwrap
