// Package ciwrap puts something in front of an HCA: a fault injector, a tracer, a wrong driver for testing a certifier. Whoever
// wraps writes only the verbs that matter; the rest comes by embedding.
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
// A Layer holds a function for each kind of object, and hooks for the attributes with which objects are made. Only the parts that
// lead to something replaced get a wrapper; an object whose function is nil is the driver's own (a QP when Mcast is nil, a CQ, an
// MR, …), so its data path costs nothing. Layers stack: Wrap(Wrap(hca, a), b) has b in front of a.
//
// # Faces
//
// A wrapped object has several faces, which ci.Same treats as one. Objects that go down as arguments (a CQ in a QPCreate, an AV in
// a SendWR) keep the face that the consumer holds; drivers recover their own by ci.As. Objects that come up from a Query are those
// the driver was given, or, for the parent PD, the driver's own face: compare with ci.Same, and do not create below it.
//
// # Order
//
// From the driver up: the driver's object, ciwrap's own wrapper that hands children to the Layer, the Layer's replacement. A PD
// replacement that overrides CreateQP therefore gets QPs that the Layer's QP function has seen, or may refuse before one is made.
//
// # Failures
//
// What a verb that failed returned is passed up untouched, and so is a nil object: a wrapper neither hides nor adds a defect.
package ciwrap
